-- The twenty pages with the most hits, with the listing that each shows, if it shows one that is still there.
CREATE MATERIALIZED VIEW top_pages WITH (key = 'path', sinks = 'cache, search, warehouse') AS
SELECT h.path, h.hits, h.visitors, l.id AS listing_id, l.title
FROM (
    SELECT path, max(listing_id) AS listing_id, count(*) AS hits, count(DISTINCT visitor) AS visitors
    FROM page_hits GROUP BY path ORDER BY hits DESC, path LIMIT 20
) h
LEFT JOIN listings l ON l.id = h.listing_id;
