-- Products that can be bought now. One that sells out leaves the view and comes back when stock arrives, so a saved
-- search on it tells people when something they wait for is back.
CREATE MATERIALIZED VIEW back_in_stock WITH (key = 'sku', sinks = 'cache, search, warehouse, alerts') AS
SELECT p.sku, p.name, p.category, p.price, p.tags, s.quantity AS in_stock, s.quantity < 5 AS is_low, s.moved_at AS since
FROM products p
JOIN stock s ON s.sku = p.sku
WHERE s.quantity > 0;
