-- Winning bids
SELECT id, itemname, description, initialbid, reserve, ts, expires, seller, category, extra,
       auction, bidder, price, bid_ts, bid_extra
FROM (
  SELECT a.*, b.auction, b.bidder, b.price, b.ts AS bid_ts, b.extra AS bid_extra,
         row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.ts) AS place
  FROM auction a, bid b
  WHERE a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires) AS ranked
WHERE place = 1
