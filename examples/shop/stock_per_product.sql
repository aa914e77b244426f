-- Every product with its stock and what was sold of it: what a product's page and the warehouse's planners read.
CREATE MATERIALIZED VIEW stock_per_product WITH (key = 'sku', sinks = 'cache, search, warehouse') AS
SELECT
    p.sku, p.name, p.category, p.price, p.tags,
    coalesce(s.quantity, 0) AS in_stock,
    coalesce(s.returnable, 0) AS returnable,
    coalesce(o.orders, 0) AS orders,
    coalesce(o.units, 0) AS units_sold,
    coalesce(o.revenue, 0) AS revenue,
    s.moved_at
FROM products p
LEFT JOIN stock s ON s.sku = p.sku
LEFT JOIN (
    SELECT sku, count(*) AS orders, sum(quantity) AS units, sum(quantity * unit_price) AS revenue
    FROM orders WHERE state = 'placed' GROUP BY sku
) o ON o.sku = p.sku;
