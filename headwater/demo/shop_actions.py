"""What happens in the shop and on its pages, one function for each thing. Each leaves stock and orders in agreement.

Whoever changes a product's stock or orders locks its row in `stock` too, so two movers never count one unit twice.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Final

from headwater.demo import shop
from headwater.demo.hits import hit
from headwater.demo.rows import Product
from headwater.demo.turn import Turn

RESTOCK_BELOW: Final = 5
RESTOCK_MAX: Final = 60
SETTLED_MAX: Final = 20
RENAMED_ORDERS_MAX: Final = 200
"""A product with more orders keeps its name: all of them would be rewritten in one transaction."""
HITS_AT_ONCE_MAX: Final = 5
HITS_KEPT_MAX: Final = 300_000
HITS_EXPIRED_MAX: Final = 200

_REVISION: Final = re.compile(r"^(.*)-R(\d+)$")


def place_order(turn: Turn) -> int:
    """Stock goes out. Nothing is sold that is not on the shelf."""
    found = _stock(turn)
    if found is None or found[1] == 0:
        return 0
    sku, on_shelf = found
    quantity = min(on_shelf, turn.draw.between(1, shop.ORDER_QUANTITY_MAX))
    product = turn.one("SELECT sku, name, category, price, weight_g, tags FROM public.products WHERE sku = %s", sku)
    if product is None:
        return 0
    rows = turn.insert("orders", shop.order(turn.draw, Product(*product), quantity, turn.at))
    return rows + _move_stock(turn, sku, -quantity, quantity)


def return_order(turn: Turn) -> int:
    """Stock comes back."""
    found = turn.one(
        "SELECT o.id, o.sku, o.quantity FROM public.orders o JOIN public.stock s USING (sku)"
        " WHERE o.id >= %s AND o.state = 'placed' ORDER BY o.id LIMIT 1 FOR UPDATE SKIP LOCKED",
        turn.draw.uuid(),
    )
    if found is None:
        return 0
    order_id, sku, quantity = found
    rows = turn.change("UPDATE public.orders SET state = 'returned', returned_at = %s WHERE id = %s", turn.at, order_id)
    return rows + _move_stock(turn, sku, quantity, -quantity)


def restock(turn: Turn) -> int:
    """A delivery for whatever is running out."""
    found = turn.one(
        "SELECT sku FROM public.stock WHERE quantity < %s ORDER BY quantity, sku LIMIT 1 FOR UPDATE SKIP LOCKED",
        RESTOCK_BELOW,
    )
    return 0 if found is None else _move_stock(turn, found[0], turn.draw.between(10, RESTOCK_MAX), 0)


def settle_orders(turn: Turn) -> int:
    """The oldest orders leave once they can no longer be returned: many deletes and updates in one transaction."""
    settled = turn.cur.execute(
        "DELETE FROM public.orders WHERE id = ANY(ARRAY("
        "SELECT o.id FROM public.orders o JOIN public.stock s USING (sku)"
        " WHERE o.placed_at < %s ORDER BY o.placed_at, o.id LIMIT %s FOR UPDATE SKIP LOCKED))"
        " RETURNING sku, state = 'placed', quantity",
        (turn.at - shop.RETURN_WINDOW, SETTLED_MAX),
    ).fetchall()
    sold: dict[str, int] = {}
    for sku, placed, quantity in settled:
        if placed:
            sold[sku] = sold.get(sku, 0) + quantity
    return len(settled) + sum(_move_stock(turn, sku, 0, -sold[sku]) for sku in sorted(sold))


def rename_product(turn: Turn) -> int:
    """A new revision of a product: the key changes in products and stock, the reference in its orders."""
    found = _stock(turn)
    if found is None:
        return 0
    sku = found[0]
    orders = turn.one("SELECT count(*) FROM public.orders WHERE sku = %s", sku)
    if orders is None or orders[0] > RENAMED_ORDERS_MAX:
        return 0
    renamed = turn.change("UPDATE public.products SET sku = %s WHERE sku = %s", next_revision(sku), sku)
    return 2 * renamed + int(orders[0])


def next_revision(sku: str) -> str:
    """KIT-00012 ▶ KIT-00012-R2 ▶ KIT-00012-R3: never a name that another product has or had."""
    found = _REVISION.match(sku)
    return f"{found[1]}-R{int(found[2]) + 1}" if found else f"{sku}-R2"


def visit_pages(turn: Turn) -> int:
    found = turn.one("SELECT coalesce(max(id), 0) FROM public.listings")
    listings = found[0] if found else 0
    count = turn.draw.between(1, HITS_AT_ONCE_MAX)
    visits = (hit(turn.draw, 0, listings, turn.at + timedelta(milliseconds=number)) for number in range(count))
    return sum(turn.insert("page_hits", visit, numbered=True) for visit in visits)


def expire_hits(turn: Turn) -> int:
    """The access log is cut at its old end, a piece at a time."""
    return turn.change(
        "DELETE FROM public.page_hits WHERE id = ANY(ARRAY(SELECT id FROM public.page_hits"
        " WHERE id <= (SELECT max(id) FROM public.page_hits) - %s ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED))",
        HITS_KEPT_MAX,
        HITS_EXPIRED_MAX,
    )


def _stock(turn: Turn) -> tuple[Any, ...] | None:
    """Any product, by chance, with its stock locked."""
    last = turn.one("SELECT greatest(count(*), 1) FROM public.stock")
    return turn.one(
        "SELECT sku, quantity FROM public.stock ORDER BY sku OFFSET %s LIMIT 1 FOR UPDATE SKIP LOCKED",
        turn.draw.below(last[0] if last else 1),
    )


def _move_stock(turn: Turn, sku: str, on_shelf: int, returnable: int) -> int:
    return turn.change(
        "UPDATE public.stock SET quantity = quantity + %s, returnable = returnable + %s, moved_at = %s WHERE sku = %s",
        on_shelf,
        returnable,
        turn.at,
        sku,
    )
