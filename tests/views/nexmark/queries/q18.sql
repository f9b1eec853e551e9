-- Last bid of a user for an auction
SELECT auction, bidder, price, channel, url, ts, extra
FROM (SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY ts DESC) AS place FROM bid) AS ranked
WHERE place <= 1
