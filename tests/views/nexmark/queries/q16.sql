-- Statistics of a channel and day
SELECT channel, date_format(ts, 'yyyy-MM-dd') AS day, max(date_format(ts, 'HH:mm')) AS minute,
       count(*) AS total_bids,
       count(*) FILTER (WHERE price < 10000) AS rank1_bids,
       count(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
       count(DISTINCT bidder) AS total_bidders,
       count(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidders,
       count(DISTINCT auction) AS total_auctions
FROM bid
GROUP BY channel, date_format(ts, 'yyyy-MM-dd')
