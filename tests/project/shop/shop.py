"""The shop's mappers: what its events become."""

from headwater import mapper, upcaster


@mapper("OrderPlaced", "OrderShipped")
def order(event):
    return {"customer_id": event["customer_id"], "order_total": event["total"]}


@mapper("PaymentProcessed")
def payment(event):
    return {"customer_id": event["payer"], "order_total": event["amount"]}


@upcaster("OrderPlaced", from_version=1)
def order_with_total(event):
    return {**event, "total": event["price"] * event["quantity"]}
