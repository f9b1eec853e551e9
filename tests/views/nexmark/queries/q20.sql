-- Bids with their auction
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.ts, b.extra, a.itemname, a.description, a.initialbid, a.reserve,
       a.ts AS auction_ts, a.expires, a.seller, a.category, a.extra AS auction_extra
FROM bid b JOIN auction a ON b.auction = a.id
WHERE a.category = 10
