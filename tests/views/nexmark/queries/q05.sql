-- Hot items: sliding windows
WITH counts AS (
  SELECT auction, count(*) AS num, window.start AS starttime, window.end AS endtime
  FROM bid
  GROUP BY auction, window(ts, '10 seconds', '2 seconds'))
SELECT c.auction, c.num, c.starttime, c.endtime
FROM counts c JOIN (SELECT starttime, endtime, max(num) AS maxn FROM counts GROUP BY starttime, endtime) m
  ON c.starttime = m.starttime AND c.endtime = m.endtime AND c.num >= m.maxn
