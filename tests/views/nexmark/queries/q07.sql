-- Highest bid of a tumbling window
SELECT b.auction, b.price, b.bidder, b.ts, b.extra
FROM bid b JOIN (
  SELECT max(price) AS maxprice, window.end AS endtime FROM bid GROUP BY window(ts, '10 seconds')) m
  ON b.price = m.maxprice
WHERE b.ts >= m.endtime - interval 10 seconds AND b.ts < m.endtime
