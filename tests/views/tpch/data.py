"""TPC-H's data, very small and drawn from a seed, and statements that keep it changing.

Values are drawn from a few each, so that joins meet, groups are shared, and the queries' constants find something.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random
from typing import Any

import psycopg

REGIONS = ("EUROPE", "ASIA")
NATIONS = (("FRANCE", 0), ("GERMANY", 0), ("JAPAN", 1), ("INDIA", 1))
CONTAINERS = ("SM CASE", "MED BAG", "MED BOX", "MED BOX")
TYPES = ("PROMO PLATED TIN", "ECONOMY ANODIZED BRASS", "MEDIUM POLISHED BRASS")
PRIORITIES = ("1-URGENT", "2-HIGH", "5-LOW")
COMMENTS = ("quiet", "special packages requests", "Customer insists on Complaints", "")
FIRST_DAY, DAYS = date(1993, 1, 1), 1500
SUPPLIERS, CUSTOMERS, PARTS, ORDERS, LINES = 6, 12, 8, 24, 3


@dataclass
class Tpch:
    connection: psycopg.Connection
    random: Random

    def load(self) -> None:
        for number, name in enumerate(REGIONS):
            self._put("region", (number, name, None))
        for number, (name, region) in enumerate(NATIONS):
            self._put("nation", (number, name, region, None))
        for table, count in (("supplier", SUPPLIERS), ("customer", CUSTOMERS), ("part", PARTS), ("orders", ORDERS)):
            for number in range(1, count + 1):
                self._put(table, self._row(table, (number,)))
        for part in range(1, PARTS + 1):
            for supplier in self.random.sample(range(1, SUPPLIERS + 1), 3):
                self._put("partsupp", self._row("partsupp", (part, supplier)))
        for order in range(1, ORDERS + 1):
            for line in range(1, self.random.randint(1, LINES) + 1):
                self._put("lineitem", self._row("lineitem", (order, line)))

    def transaction(self) -> None:
        """Some changes, committed together."""
        with self.connection.transaction():
            for _ in range(self.random.randint(1, 5)):
                self.random.choice(ACTIONS)(self)

    def put_line(self) -> None:
        self._put("lineitem", self._row("lineitem", (self._id(ORDERS), self._id(LINES))))

    def put_order(self) -> None:
        order = self._id(ORDERS + 6)
        self._put("orders", self._row("orders", (order,)))
        self._put("lineitem", self._row("lineitem", (order, 1)))

    def put_other(self) -> None:
        table, count = self.random.choice((("supplier", SUPPLIERS), ("customer", CUSTOMERS + 2), ("part", PARTS)))
        self._put(table, self._row(table, (self._id(count),)))

    def put_supply(self) -> None:
        self._put("partsupp", self._row("partsupp", (self._id(PARTS), self._id(SUPPLIERS))))

    def delete(self) -> None:
        table, key = self.random.choice(
            (
                ("lineitem", "l_orderkey"),
                ("orders", "o_orderkey"),
                ("customer", "c_custkey"),
                ("partsupp", "ps_partkey"),
            )
        )
        self.connection.execute(f"delete from {table} where {key} = %s", [self._id(ORDERS)])

    def move(self) -> None:
        """Keys change: of an order with its lines, and of what a line refers to."""
        old, new = self._id(ORDERS), self._id(ORDERS + 6)
        self.connection.execute("delete from orders where o_orderkey = %s and %s <> %s", [new, new, old])
        self.connection.execute("delete from lineitem where l_orderkey = %s and %s <> %s", [new, new, old])
        self.connection.execute("update orders set o_orderkey = %s where o_orderkey = %s", [new, old])
        self.connection.execute("update lineitem set l_orderkey = %s where l_orderkey = %s", [new, old])

    def rename(self) -> None:
        """Two nations exchange their names, and the queries look for names: much follows from two rows."""
        one, other = self.random.sample(range(len(NATIONS)), 2)
        self.connection.execute(
            "update nation a set n_name = b.n_name from nation b"
            " where (a.n_nationkey, b.n_nationkey) in ((%s, %s), (%s, %s))",
            [one, other, other, one],
        )

    def discount(self) -> None:
        self.connection.execute(
            "update lineitem set l_discount = %s, l_quantity = l_quantity + 1 where l_partkey = %s",
            [self.random.choice(("0.05", "0.06", "0.10")), self._id(PARTS)],
        )

    def _id(self, count: int) -> int:
        return self.random.randint(1, count)

    def _put(self, table: str, row: tuple[Any, ...]) -> None:
        """In place of the one that has its key, if one has."""
        key = KEYS.get(table, ())
        if key:
            where = " and ".join(f"{name} = %s" for name in key)
            known = self.connection.execute(f"select from {table} where {where}", row[: len(key)]).rowcount
            if known:
                self._change(table, row, key)
                return
        self.connection.execute(f"insert into {table} values ({', '.join(['%s'] * len(row))})", row)

    def _change(self, table: str, row: tuple[Any, ...], key: tuple[str, ...]) -> None:
        values = ", ".join(["%s"] * len(row))
        columns = self.connection.execute(f"select * from {table} limit 0").description or ()
        names = ", ".join(column.name for column in columns)
        where = " and ".join(f"{name} = %s" for name in key)
        self.connection.execute(f"update {table} set ({names}) = row({values}) where {where}", (*row, *row[: len(key)]))

    def _money(self) -> str:
        return f"{self.random.choice((-500, 0, 20, 901, 2500, 9999))}.{self.random.choice(('00', '37', '99'))}"

    def _phone(self) -> str:
        return f"{self.random.choice((13, 31, 23, 99))}-{self.random.randint(100, 999)}"

    def _day(self) -> date:
        return FIRST_DAY + timedelta(days=self.random.randrange(DAYS))

    def _row(self, table: str, key: tuple[int, ...]) -> tuple[Any, ...]:
        return (*key, *ROWS[table](self, key))

    def _supplier(self, key: tuple[int, ...]) -> tuple[Any, ...]:
        nation, comment = self.random.randrange(4), self.random.choice(COMMENTS)
        return (f"Supplier#{key[0]}", "a street", nation, self._phone(), self._money(), comment)

    def _customer(self, key: tuple[int, ...]) -> tuple[Any, ...]:
        segment = self.random.choice(("BUILDING", "BUILDING", "BUILDING", "MACHINERY", None))
        nation = self.random.randrange(4)
        return (f"Customer#{key[0]}", "a road", nation, self._phone(), self._money(), segment, "none")

    def _part(self, key: tuple[int, ...]) -> tuple[Any, ...]:
        name = self.random.choice(("green steel", "dark green", "red tin"))
        brand = self.random.choice(("Brand#12", "Brand#23", "Brand#23", "Brand#23", "Brand#45"))
        size = self.random.choice((3, 9, 14, 49, 50))
        box = self.random.choice(CONTAINERS)
        return (name, "Maker", brand, self.random.choice(TYPES), size, box, "901.00")

    def _partsupp(self, key: tuple[int, ...]) -> tuple[Any, ...]:
        return (self.random.choice((1, 30, 9999)), self.random.choice(("1.00", "10.50", "99.99")))

    def _orders(self, key: tuple[int, ...]) -> tuple[Any, ...]:
        status = self.random.choice("FFO")
        customer = self._id(CUSTOMERS - 4)  # some never order
        comment = self.random.choice(COMMENTS)
        return (customer, status, self._money(), self._day(), self.random.choice(PRIORITIES), 0, comment)

    def _lineitem(self, key: tuple[int, ...]) -> tuple[Any, ...]:
        shipped = self._day()
        due = shipped + timedelta(days=self.random.randint(-20, 40))
        received = shipped + timedelta(days=self.random.randrange(60))
        quantity = self.random.choice(("1.00", "12.00", "20.00", "23.50", "50.00"))
        mode = self.random.choice(("AIR", "AIR REG", "MAIL", "SHIP"))
        discount, tax = self.random.choice(("0.00", "0.05", "0.06")), self.random.choice(("0.00", "0.08"))
        flags = (self.random.choice("RNA"), self.random.choice("OF"))
        return (
            *(self._id(PARTS), self._id(SUPPLIERS), quantity, f"{self.random.randint(1, 90000)}.{key[0]:02}"),
            *(discount, tax, *flags, shipped, due, received, "NONE", mode),
        )


KEYS = {
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
ROWS: dict[str, Callable[[Tpch, tuple[int, ...]], tuple[Any, ...]]] = {
    "supplier": Tpch._supplier,
    "customer": Tpch._customer,
    "part": Tpch._part,
    "partsupp": Tpch._partsupp,
    "orders": Tpch._orders,
    "lineitem": Tpch._lineitem,
}
ACTIONS: tuple[Callable[[Tpch], None], ...] = (
    *(Tpch.put_line, Tpch.put_line, Tpch.put_line, Tpch.put_order, Tpch.put_order, Tpch.put_other, Tpch.put_other),
    *(Tpch.put_supply, Tpch.delete, Tpch.delete, Tpch.move, Tpch.rename, Tpch.discount),
)
