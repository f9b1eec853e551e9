-- Ten highest bids of an auction
SELECT *
FROM (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, ts) AS place FROM bid) AS ranked
WHERE place <= 10
