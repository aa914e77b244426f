"""A view that is its table, kept without Spark: what is committed is published transaction by transaction, by the real
publisher. And the oracle: what the log says that the owners of the searches are to be told."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg
import pyarrow as pa

from alerts import moves, store
from alerts.saved_search import SavedSearch
from alerts.wish_reading import read_wish
from cdc.capture import Capture
from cdc.changelog import ChangeLog
from cdc.events import ChangeEvent, TableName
from cdc.position import Position
from cdc.relations import SUBSCRIPTIONS
from cdc.transactions import Transaction
from search import evaluate
from search.index import IndexDefinition, decode_row, define
from search.query_json import from_json
from tests.waiting import eventually
from views import sqltypes
from views.maintain.publisher import Publisher, frontier
from views.plan import Field
from views.sinks.sink import ViewShape

VIEW = "items"
DDL = """
    create table items (id integer primary key, price integer, kind text);
    alter table items replica identity full;
"""
ITEMS = TableName("public", "items")
FIELDS = (
    Field("id", sqltypes.INTEGER, nullable=False),
    Field("price", sqltypes.INTEGER),
    Field("kind", sqltypes.TEXT),
)
Told = tuple[int, str, str, str]
"""A search's number, key, event, position."""
Delta = tuple[bytes, bytes | None, bytes | None]
SEARCHES: tuple[dict[str, Any], ...] = (
    {"query": "kind:flat price:..50", "events": ["entered", "left"]},
    {"query": "price:20..80", "events": ["changed", "entered"]},
    {"query": "kind:flat", "events": ["dropped", "entered"], "watched_column": "price", "threshold": 15},
)


def shape(source: str) -> ViewShape:
    return ViewShape(source, VIEW, FIELDS, ("id",))


def row_of(values: Any) -> bytes | None:
    return json.dumps({name.name: values[name.name] for name in FIELDS}).encode() if values else None


@dataclass
class Items:
    capture: Capture
    conn: psycopg.Connection
    target: str
    """Where everybody is told."""
    draw: random.Random = field(default_factory=lambda: random.Random(11))
    searches: dict[int, SavedSearch] = field(default_factory=dict)
    rows: dict[bytes, bytes] = field(default_factory=dict)
    """The view as it was published."""

    def __post_init__(self) -> None:
        source = self.capture.source
        self._log = ChangeLog(self.capture.kafka, source)
        self._publisher = Publisher(self.capture.kafka, source, "one")
        self.definition: IndexDefinition = define(shape(source.name))
        _, self.at = self._log.bounds()
        self.silent_to = self.at
        self._publish([], self.at, 0, 0)

    def forget_so_far(self) -> None:
        """What was published until now was no news."""
        self.silent_to = self.at

    # What people do

    def save(self, owner: str) -> None:
        for given in SEARCHES:
            wish = read_wish({**given, "channel": "webhook", "target": self.target}, self.definition)
            made = store.create(self.conn, owner, wish)
            self.searches[made.id] = made

    def churn(self) -> None:
        """A transaction."""
        with self.conn.transaction():
            for _ in range(self.draw.randint(1, 3)):
                id_, price = self.draw.randint(1, 12), self.draw.randint(1, 100)
                if self.draw.random() < 0.2:
                    self.conn.execute("delete from items where id = %s", [id_])
                    continue
                kind = self.draw.choice(("flat", "flat", "house"))
                upsert = "on conflict (id) do update set price = excluded.price, kind = excluded.kind"
                self.conn.execute(f"insert into items values (%s, %s, %s) {upsert}", [id_, price, kind])

    # What a maintainer does

    def publish(self) -> None:
        """Every transaction that the log holds by now is an epoch."""
        for transaction in self._log.transactions(self.at):
            end = Position(self.at.era, transaction.last.offset + 1)
            if deltas := list(_deltas(transaction)):
                assert transaction.end is not None
                self._publish(
                    deltas, end, transaction.end.commit_lsn.value, int(transaction.end.at.timestamp() * 1_000_000)
                )
            self.at = end

    def publish_all(self) -> None:
        """Once the log holds what is committed now."""
        [[wanted]] = self.conn.execute("select coalesce(json_object_agg(id, price), '{}') from items").fetchall()

        def is_there() -> None:
            self.publish()
            found = {str(row["id"]): row["price"] for row in map(json.loads, self.rows.values())}
            assert found == wanted

        eventually(is_there)

    def rebuild(self) -> None:
        """Tells the whole view anew, as `apply --rebuild` does."""
        deltas = [(key, None, row) for key, row in sorted(self.rows.items())]
        self._publish(deltas, self.at, 0, 0, whole=True)

    def _publish(self, deltas: list[Delta], at: Position, lsn: int, at_us: int, *, whole: bool = False) -> None:
        columns = zip(*deltas, strict=True) if deltas else ((), (), ())
        names = ("key", "before", "after")
        table = pa.table({name: pa.array(list(each), pa.binary()) for name, each in zip(names, columns, strict=True)})
        news = frontier(VIEW, "one", at.era, at.offset, lsn, at_us or None)
        self._publisher.publish({VIEW: [table]}, [news], [VIEW] if whole else [], silent=whole or not deltas)
        self.published_to = at
        for key, _, after in deltas:
            self.rows.pop(key, None)
            if after is not None:
                self.rows[key] = after

    # What must be

    def expected(self) -> Counter[Told]:
        """From the log alone, search by search, by the evaluator."""
        found, told = Counter[Told](), dict[tuple[int, bytes], moves.Memory]()
        logged = {
            number for transaction in self._log.transactions(self.silent_to, self.at) for number in _saved(transaction)
        }
        in_force = [search for number, search in self.searches.items() if number not in logged]
        for transaction in self._log.transactions(self.silent_to, self.at):
            position = str(Position(self.at.era, transaction.last.offset + 1))
            for search in in_force:
                for key, before, after in _deltas(transaction):
                    item = search.id, key
                    assert transaction.end is not None
                    memory, at = told.get(item, moves.NOTHING), transaction.end.at
                    reasons, told[item] = self._judged(search, before, after, memory, at)
                    found.update((search.id, key.decode(), event, position) for event in reasons)
            in_force += [self.searches[number] for number in _saved(transaction)]
        return found

    def _judged(
        self, search: SavedSearch, before: bytes | None, after: bytes | None, memory: moves.Memory, at: datetime
    ) -> tuple[Iterable[str], moves.Memory]:
        holds = evaluate.compile(from_json(search.wish.query, self.definition), self.definition)
        was, now = (row is not None and holds(decode_row(self.definition, row)) for row in (before, after))
        old, new = moves.decoded(before), moves.decoded(after)
        events = [("entered", now and not was), ("left", was and not now), ("changed", was and now and old != new)]
        if now and old and new and new["price"] is not None:
            events.append(("dropped", not was or old["price"] is None or new["price"] < old["price"]))
        wanted = [event for event, holds_ in events if holds_ and event in search.wish.events]
        if not wanted:
            return (), memory
        return moves.judged(search.wish, wanted, old, new, memory, at)


def _deltas(transaction: Transaction) -> Iterator[Delta]:
    """What a transaction did to each row, as a whole."""
    net: dict[bytes, tuple[bytes | None, bytes | None]] = {}
    for event in transaction.events:
        if isinstance(event, ChangeEvent) and event.table == ITEMS:
            before, after = row_of(event.before), row_of(event.after)
            key = json.dumps({"id": (event.after or event.before or {})["id"]}, separators=(",", ":")).encode()
            net[key] = (net[key][0] if key in net else before, after)
    yield from ((key, before, after) for key, (before, after) in net.items() if before != after)


def _saved(transaction: Transaction) -> Iterator[int]:
    for event in transaction.events:
        if isinstance(event, ChangeEvent) and event.table == SUBSCRIPTIONS and event.after:
            number = event.after["id"]
            assert isinstance(number, int)
            yield number
