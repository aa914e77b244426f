-- The ten agents with the most to sell, by the value of their listings, with what they have sold so far.
CREATE MATERIALIZED VIEW top_agents WITH (key = 'id', sinks = 'cache, search, warehouse') AS
SELECT
    a.id, a.name, a.agency, a.city,
    count(*) FILTER (WHERE l.status <> 'sold') AS open_listings,
    coalesce(sum(l.price) FILTER (WHERE l.status <> 'sold'), 0) AS open_value,
    count(*) FILTER (WHERE l.status = 'sold') AS sold_listings,
    coalesce(sum(l.price) FILTER (WHERE l.status = 'sold'), 0) AS sold_value
FROM agents a
JOIN listings l ON l.agent_id = a.id
GROUP BY a.id
ORDER BY open_value DESC, a.id
LIMIT 10;
