-- The traffic of every page by the hour (UTC): how many hits and visitors, and how long they waited.
CREATE MATERIALIZED VIEW page_hits_per_hour WITH (key = 'path, hour', sinks = 'cache, search, warehouse') AS
SELECT
    path, date_trunc('hour', hit_at) AS hour,
    count(*) AS hits,
    count(DISTINCT visitor) AS visitors,
    round(avg(took_ms), 1) AS average_ms,
    max(took_ms) AS slowest_ms
FROM page_hits
GROUP BY 1, 2;
