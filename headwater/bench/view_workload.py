"""The benchmark's shop: orders of customers in regions, any number of rows, and changes of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, LiteralString

import psycopg

from cdc.addresses import PostgresAddress
from cdc.events import TableName
from cdc.position import Lsn
from cdc.postgres import connect

TABLES: Final = tuple(TableName("public", name) for name in ("regions", "customers", "orders"))
CUSTOMERS_SHARE: Final = 10
"""Orders a customer."""
REGIONS: Final = 50

DDL: Final[LiteralString] = """
    create table regions (id integer primary key, name text not null);
    create table customers (
        id bigint primary key, region_id integer not null, name text not null, vip boolean not null
    );
    create table orders (
        id bigint primary key, customer_id bigint not null, amount numeric(12, 2) not null, state text not null,
        note text, placed_at timestamptz not null default now()
    )
"""
_LOAD: Final[tuple[LiteralString, ...]] = (
    "insert into regions select g, 'region ' || g from generate_series(1, %(regions)s) g",
    "insert into customers select g, 1 + g %% %(regions)s, 'customer ' || g, g %% 7 = 0"
    " from generate_series(1, %(customers)s) g",
    "insert into orders select g, 1 + g %% %(customers)s, g %% 1000 + 0.5, 'placed', 'order number ' || g"
    " from generate_series(1, %(rows)s) g",
    "create index on orders (customer_id)",
    "analyze",
)

CARD: Final = """create materialized view order_card as
    select o.id, o.amount, o.state, o.note, o.placed_at, c.name as customer, c.vip
    from orders o join customers c on c.id = o.customer_id"""
SALES: Final = """create materialized view sales as
    select r.id, r.name, count(*) as orders, sum(o.amount) as amount, count(*) filter (where c.vip) as vip_orders
    from orders o join customers c on c.id = o.customer_id join regions r on r.id = c.region_id
    group by r.id, r.name"""
SPENT: Final = """create materialized view spent as
    select c.id, c.name, count(*) as orders, sum(o.amount) as amount
    from orders o join customers c on c.id = o.customer_id group by c.id, c.name"""


@dataclass
class Shop:
    conn: psycopg.Connection
    rows: int
    _turn: int = 0

    @property
    def customers(self) -> int:
        return max(REGIONS, self.rows // CUSTOMERS_SHARE)

    def load(self) -> None:
        numbers = {"regions": REGIONS, "customers": self.customers, "rows": self.rows}
        for statement in _LOAD:
            self.conn.execute(statement, numbers if "%(" in statement else None)

    def change_orders(self, count: int) -> Lsn:
        """So many orders, spread over all of them, in one transaction."""
        self._turn += 1
        step = max(1, self.rows // count)
        self.conn.execute(
            "update orders set amount = amount + 1 where id in"
            " (select 1 + (g * %s + %s) %% %s from generate_series(0, %s - 1) g)",
            [step, self._turn, self.rows, count],
        )
        return self.lsn()

    def change_much(self, count: int, transaction_rows: int = 5_000) -> Lsn:
        """Orders, and customers a tenth as often, in transactions of some size."""
        for _ in range(0, count, transaction_rows):
            with self.conn.transaction():
                self.change_orders(transaction_rows * 9 // 10)
                self.conn.execute(
                    "update customers set vip = not vip where id in"
                    " (select 1 + (g * 7 + %s) %% %s from generate_series(1, %s) g)",
                    [self._turn, self.customers, transaction_rows // 10],
                )
        return self.lsn()

    def lsn(self) -> Lsn:
        row = self.conn.execute("select pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        return Lsn.parse(row[0])


@contextmanager
def flow(postgres: PostgresAddress, rows: int, per_s: int) -> Iterator[None]:
    """Single-row commits, so many a second, for the length of the block."""
    stop = threading.Event()

    def write() -> None:
        with connect(postgres) as conn:
            began, number = time.monotonic(), 0
            while not stop.is_set():
                due = int((time.monotonic() - began) * per_s)
                while number < due and not stop.is_set():
                    number += 1
                    conn.execute("update orders set amount = amount + 1 where id = %s", [2 + number * 17 % (rows - 1)])
                stop.wait(0.005)

    thread = threading.Thread(target=write, name="flow", daemon=True)
    if per_s:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if per_s:
            thread.join(30)
