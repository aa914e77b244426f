"""The shop as it stands at an instant: products, each with its stock and its orders. Pure.

Guarantee: `stock.returnable` is the sum of the quantities of the product's orders in state `placed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from headwater.demo import words
from headwater.demo.draw import Draw
from headwater.demo.market import person
from headwater.demo.rows import Order, Product, Stock

ORDER_QUANTITY_MAX: Final = 4
STOCK_START_MAX: Final = 80
RETURN_SHARE: Final = 0.12
RETURN_WINDOW: Final = timedelta(days=7)
ORDERS_PER_PRODUCT_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class ProductBundle:
    """A product, its stock and its orders: one is not consistent without the others."""

    product: Product
    stock: Stock
    orders: list[Order]


def product(draw: Draw, number: int) -> Product:
    category = draw.one(tuple(words.GOODS))
    name, euro = draw.one(words.GOODS[category])
    colour = draw.one(words.COLOURS)
    return Product(
        sku=f"{category[:3].upper()}-{number:05d}",
        name=f"{name}, {colour}",
        category=category,
        price=Decimal(euro * 100 + draw.between(-3, 3) * 50 - 1).scaleb(-2),
        weight_g=float(draw.between(50, 4000)) if draw.chance(0.9) else None,
        tags=[colour, *draw.some(("new", "handmade", "recycled", "gift"), 1)],
    )


def order(draw: Draw, of: Product, quantity: int, placed_at: datetime) -> Order:
    return Order(draw.uuid(), of.sku, quantity, of.price, person(draw), "placed", placed_at, None)


def products(seed: int, count: int, orders: int, at: datetime) -> Iterator[ProductBundle]:
    """The first products sell the most, up to a limit for each; about `orders` orders in all."""
    draw = Draw(f"{seed}/shop")
    share = orders / sum(1.0 / rank for rank in range(1, count + 1))
    for number in range(1, count + 1):
        made = product(draw, number)
        sold = [_past_order(draw, made, at) for _ in range(min(ORDERS_PER_PRODUCT_MAX, round(share / number)))]
        returnable = sum(order.quantity for order in sold if order.state == "placed")
        yield ProductBundle(made, Stock(made.sku, draw.between(0, STOCK_START_MAX), returnable, at), sold)


def _past_order(draw: Draw, of: Product, at: datetime) -> Order:
    placed = order(draw, of, draw.between(1, ORDER_QUANTITY_MAX), at - RETURN_WINDOW * draw.random())
    if not draw.chance(RETURN_SHARE):
        return placed
    returned_at = placed.placed_at + (at - placed.placed_at) * draw.random()
    return placed._replace(state="returned", returned_at=returned_at)
