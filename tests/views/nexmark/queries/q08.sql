-- New users who sell: both in one tumbling window
SELECT p.id, p.name, p.starttime
FROM (
  SELECT id, name, window.start AS starttime, window.end AS endtime
  FROM person
  GROUP BY id, name, window(ts, '10 seconds')) p
JOIN (
  SELECT seller, window.start AS starttime, window.end AS endtime
  FROM auction
  GROUP BY seller, window(ts, '10 seconds')) a
  ON p.id = a.seller AND p.starttime = a.starttime AND p.endtime = a.endtime
