-- Average selling price of a seller's last ten auctions
SELECT id, seller, avg(final) OVER (
    PARTITION BY seller ORDER BY ts, id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS average
FROM (
  SELECT a.id, a.seller, b.price AS final, b.ts,
         row_number() OVER (PARTITION BY a.id, a.seller ORDER BY b.price DESC, b.ts) AS place
  FROM auction a JOIN bid b ON a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires) AS won
WHERE place = 1
