"""What must hold of the demo's data at every commit, and what there is of it."""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from headwater.demo.rows import ROWS

# Each must find nothing. They are the table comments of schema.sql, and what the foreign keys leave open.
INVARIANTS = {
    "a listing's latest price is its price": """
        SELECT l.id FROM public.listings l LEFT JOIN LATERAL
            (SELECT price FROM public.price_history h WHERE h.listing_id = l.id ORDER BY id DESC LIMIT 1) h ON true
        WHERE h.price IS DISTINCT FROM l.price""",
    "a price that follows another differs from it": """
        SELECT id FROM (SELECT id, price, lag(price) OVER (PARTITION BY listing_id ORDER BY id) AS before
                        FROM public.price_history) p WHERE price = before""",
    "stock is never negative": "SELECT sku FROM public.stock WHERE quantity < 0 OR returnable < 0",
    "what may come back is what was ordered": """
        SELECT s.sku FROM public.stock s LEFT JOIN public.orders o ON o.sku = s.sku AND o.state = 'placed'
        GROUP BY s.sku, s.returnable HAVING coalesce(sum(o.quantity), 0) <> s.returnable""",
    "every product has stock": "SELECT sku FROM public.products EXCEPT SELECT sku FROM public.stock",
    "every child has its listing": """
        SELECT listing_id FROM (SELECT listing_id FROM public.photos UNION ALL SELECT listing_id FROM public.viewings
            UNION ALL SELECT listing_id FROM public.price_history) c
        WHERE NOT EXISTS (SELECT FROM public.listings l WHERE l.id = c.listing_id)""",
    "nobody views what is sold": """
        SELECT v.id FROM public.viewings v JOIN public.listings l ON l.id = v.listing_id WHERE l.status = 'sold'""",
    "nothing is updated before it was listed": "SELECT id FROM public.listings WHERE updated_at < listed_at",
}


def broken_invariants(conn: Connection[Any]) -> dict[str, list[Any]]:
    found = {name: conn.execute(query).fetchall() for name, query in INVARIANTS.items()}
    return {name: rows for name, rows in found.items() if rows}


def contents(conn: Connection[Any]) -> dict[str, list[Any]]:
    """Everything there is, as Postgres prints it."""
    return {table: conn.execute(f"SELECT t::text FROM public.{table} t ORDER BY 1").fetchall() for table in ROWS}
