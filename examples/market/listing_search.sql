-- What people search: a flat document for each home that is not sold, with its text, its place on the map, and numbers
-- to filter and sort by.
CREATE MATERIALIZED VIEW listing_search WITH (key = 'id', sinks = 'cache, search, warehouse, alerts') AS
SELECT
    l.id, l.title, l.description,
    concat_ws(' ', l.title, l.description, l.city, l.postcode, array_to_string(l.features, ' ')) AS text,
    l.kind, l.status, l.city, l.country, l.postcode, l.lat, l.lon, l.price, l.area_m2, l.bedrooms, l.has_garden,
    l.features, l.attributes ->> 'heating' AS heating,
    a.name AS agent_name, a.agency, a.languages AS agent_languages,
    (SELECT count(*) FROM photos p WHERE p.listing_id = l.id) AS photos,
    l.price < first.price AS is_reduced,
    l.listed_at, l.updated_at
FROM listings l
JOIN agents a ON a.id = l.agent_id
LEFT JOIN (
    SELECT DISTINCT ON (listing_id) listing_id, price FROM price_history ORDER BY listing_id, id
) first ON first.listing_id = l.id
WHERE l.status <> 'sold';
