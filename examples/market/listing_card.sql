-- All that a listing's page shows, as one document: the listing, its agent, its photos in order, every price it had.
-- Read it by id from the cache; a change of the agent or of a photo changes the card, too.
CREATE MATERIALIZED VIEW listing_card WITH (key = 'id', sinks = 'cache, search, warehouse') AS
SELECT
    l.id, l.title, l.description, l.kind, l.status, l.city, l.country, l.postcode, l.price, l.area_m2,
    round(l.price / l.area_m2, 2) AS price_per_m2, l.bedrooms, l.has_garden, l.features, l.attributes,
    l.listed_at, l.updated_at,
    json_build_object(
        'id', a.id, 'name', a.name, 'agency', a.agency, 'email', a.email, 'languages', a.languages
    ) AS agent,
    (SELECT coalesce(json_agg(json_build_object('url', p.url, 'caption', p.caption) ORDER BY p.position), '[]')
     FROM photos p WHERE p.listing_id = l.id) AS photos,
    (SELECT coalesce(json_agg(json_build_object('price', h.price, 'at', h.changed_at) ORDER BY h.id), '[]')
     FROM price_history h WHERE h.listing_id = l.id) AS prices
FROM listings l
JOIN agents a ON a.id = l.agent_id;
