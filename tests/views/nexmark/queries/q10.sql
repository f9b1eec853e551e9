-- Log, with the columns that its files would be partitioned by
SELECT auction, bidder, price, ts, extra, date_format(ts, 'yyyy-MM-dd') AS dt, date_format(ts, 'HH:mm') AS hm FROM bid
