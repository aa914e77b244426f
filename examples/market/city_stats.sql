-- What a city's market looks like: how many homes are for sale, at what prices, and how many were sold.
CREATE MATERIALIZED VIEW city_stats WITH (key = 'country, city', sinks = 'cache, search, warehouse') AS
SELECT
    country, city,
    count(*) AS listings,
    count(*) FILTER (WHERE status = 'for_sale') AS for_sale,
    count(*) FILTER (WHERE status = 'sold') AS sold,
    round(avg(price) FILTER (WHERE status = 'for_sale'), 2) AS average_price,
    min(price) FILTER (WHERE status = 'for_sale') AS lowest_price,
    max(price) FILTER (WHERE status = 'for_sale') AS highest_price,
    round(avg(area_m2) FILTER (WHERE status = 'for_sale'), 1) AS average_area_m2,
    count(DISTINCT agent_id) AS agents,
    max(listed_at) AS last_listed_at
FROM listings
GROUP BY country, city;
