"""The sinks under test, each with a real place; and a twin in memory that says what the contract means."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from confluent_kafka import Producer

from cdc.addresses import KafkaAddress
from cdc.errors import SinkUnavailable
from cdc.kafka import producer
from search.address import ElasticsearchAddress
from search.sink import ElasticsearchKind
from views.plan import Field
from views.sinks.cache import CacheKind, RedisAddress
from views.sinks.inbox import Delivery
from views.sinks.sink import Change, Mark, Refused, Sink, SinkKind, ViewShape, fingerprint
from views.sinks.warehouse import WarehouseKind
from views.sqltypes import named, numeric

TOPIC = "topic-1"


def shape(source: str, view: str = "items", **options: str) -> ViewShape:
    columns = (
        Field("id", named("integer"), nullable=False),
        Field("label", named("text")),
        Field("price", numeric(12, 2)),
    )
    return ViewShape(source, view, columns, ("id",), options)


def upsert(id_: int, version: int, label: str = "x", price: str = "1.50") -> Change:
    row = f'{{"id":{id_},"label":{json.dumps(label)},"price":{price}}}'
    return Change(f'{{"id":{id_}}}'.encode(), row.encode(), version)


def gone(id_: int, version: int) -> Change:
    return Change(f'{{"id":{id_}}}'.encode(), None, version)


def mark(next_offset: int, **given: int) -> Mark:
    return Mark(TOPIC, next_offset, **given)


def kind_at(name: str, at: dict[str, Any]) -> SinkKind:
    """For a process of its own, which is told addresses as plain values."""
    match name:
        case "cache":
            return CacheKind(RedisAddress(**at))
        case "search":
            return ElasticsearchKind(ElasticsearchAddress(**at))
        case "warehouse":
            return WarehouseKind(**at)
    raise AssertionError(name)


def held(sink: Sink) -> dict[int, str]:
    """What readers find: labels by id."""
    rows = [json.loads(row) for row in sink.rows()]
    found = {row["id"]: row["label"] for row in rows}
    assert len(found) == len(rows), "a key twice"
    return found


@dataclass
class MemoryPlace:
    """What several sinks of one kind share."""

    rows: dict[tuple[str, int], dict[bytes, tuple[int, bytes | None]]] = field(default_factory=dict)
    marks: dict[tuple[str, int], Mark] = field(default_factory=dict)
    pointers: dict[str, int] = field(default_factory=dict)
    is_down: bool = False
    applied: int = 0
    poison: frozenset[bytes] = frozenset()


@dataclass(frozen=True)
class MemoryKind(SinkKind):
    place: MemoryPlace

    name: ClassVar[str] = "memory"

    def open(self, shape: ViewShape, generation: int) -> MemorySink:
        return MemorySink(self.place, (shape.view, generation))

    def made_for(self, shape: ViewShape) -> str:
        return fingerprint(sorted(shape.options.items()))

    def current(self, source: str, view: str) -> int | None:
        return self.place.pointers.get(view)

    def switch(self, source: str, view: str, generation: int | None) -> None:
        if generation is None:
            self.place.pointers.pop(view, None)
        else:
            self.place.pointers[view] = generation


class MemorySink(Sink):
    def __init__(self, place: MemoryPlace, name: tuple[str, int]) -> None:
        self._place, self._name, self._was_marked = place, name, False

    def prepare(self) -> None:
        self._ask()
        self._place.rows.setdefault(self._name, {})

    def mark(self) -> Mark | None:
        self._ask()
        self._was_marked = self._name in self._place.marks
        return self._place.marks.get(self._name)

    def apply(self, changes: Sequence[Change], mark: Mark) -> list[Refused]:
        self._ask()
        if self._was_marked and self._name not in self._place.marks:
            self._was_marked = False
            raise SinkUnavailable("the place was emptied")
        self._was_marked = True
        rows = self._place.rows.setdefault(self._name, {})
        refused = [Refused(change, "poison") for change in changes if change.key in self._place.poison]
        for change in changes:
            if change.key not in self._place.poison and rows.get(change.key, (-1, None))[0] < change.version:
                rows[change.key] = change.version, change.after
        self._place.marks[self._name] = mark
        self._place.applied += 1
        return refused

    def rows(self) -> Iterator[bytes]:
        for _, row in self._place.rows.get(self._name, {}).values():
            if row is not None:
                yield row

    def read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        held = self._place.rows.get(self._name, {})
        return {key: row for key in keys if (row := held.get(key, (0, None))[1]) is not None}

    def drop(self) -> None:
        self._ask()
        self._place.rows.pop(self._name, None)
        self._place.marks.pop(self._name, None)

    def close(self) -> None: ...

    def _ask(self) -> None:
        if self._place.is_down:
            raise SinkUnavailable("the place is down")


@dataclass
class Publisher:
    """Writes to a view's topic, and says what it wrote as an epoch would."""

    kafka: KafkaAddress
    topic: str
    topic_id: str
    since: int = 0
    next_offset: int = 0
    written: list[Change] = field(default_factory=list)
    published_at_us: int = field(default_factory=lambda: time.time_ns() // 1000)

    @cached_property
    def _producer(self) -> Producer:
        return producer(self.kafka)

    def epoch(self, *changes: Change) -> Delivery:
        out, after = self._producer, self.next_offset
        for change in changes:
            row = "null" if change.after is None else change.after.decode()
            came = f'"position":"1:1","lsn":"0/1","committed_at_us":1,"published_at_us":{self.published_at_us}'
            out.produce(self.topic, key=change.key, value=f'{{"before":null,"after":{row},{came}}}'.encode())
        assert out.flush(30) == 0
        placed = [change._replace(version=after + n) for n, change in enumerate(changes)]
        self.written += placed
        self.next_offset += len(changes)
        upto = Mark(self.topic_id, self.next_offset, self.since, lsn=f"0/{self.next_offset}", published_at_us=1)
        return Delivery(upto, after, placed)

    def rows(self) -> dict[int, str]:
        last = {change.key: change for change in self.written if change.version >= self.since}
        rows = [json.loads(change.after) for change in last.values() if change.after is not None]
        return {row["id"]: row["label"] for row in rows}
