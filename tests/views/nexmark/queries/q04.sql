-- Average price of a category
SELECT category, avg(final) AS average
FROM (
  SELECT max(b.price) AS final, a.category
  FROM auction a, bid b
  WHERE a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires
  GROUP BY a.id, a.category) AS closing
GROUP BY category
