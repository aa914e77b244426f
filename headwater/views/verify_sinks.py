"""Is a sink what its view's topic says? Every row, while both go on.

    mark m ─▶ every row of the sink ─▶ the topic: its last word on every key before m, and all it said since then

A row that the topic has not mentioned since m must be exactly the topic's. One that it has may be whichever of the
values it had since then: rows are written a moment before the mark that speaks of them. That the view itself is what
Postgres has is what verify.py says: the two together close the way from the source to every reader.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from cdc.errors import ViewError
from views.maintain.contents import key_json
from views.sinks.following import ViewTopic
from views.sinks.sink import Mark, Sink
from views.store import ViewStore

EXAMPLES: Final = 5
ABSENT: Final = b""
WRONG_MAX: Final = 10_000


@dataclass(frozen=True)
class SinkVerified:
    view: str
    sink: str
    rows: int
    missing: int
    extra: int
    different: int
    examples: tuple[str, ...]
    """Keys of rows that differ, with what is wrong."""
    lsn: str
    took_s: float
    generation: int = 0
    wrong: tuple[tuple[str, str], ...] = ()
    """What is wrong with which key; of very many, the first."""

    @property
    def is_equal(self) -> bool:
        return not (self.missing or self.extra or self.different)


def may_be_absent(sink: str, options: Mapping[str, str]) -> bool:
    """Rows of a cache may expire by themselves, where the view asked for it."""
    return sink == "cache" and options.get("cache_ttl_s", "0") != "0"


def verify_sink(
    name: str,
    sink: Sink,
    store: ViewStore,
    topic: ViewTopic,
    examples: int = EXAMPLES,
    *,
    generation: int = 0,
    allowed: Collection[str] = (),
) -> SinkVerified:
    """`allowed` is what is not to be counted as wrong.

    Raises ViewError for a sink that has nothing to compare, or is filled while it is read.
    """
    began = time.monotonic()
    before = _marked(sink, store, name)
    held = {key_json(store, row): row for row in sink.rows()}
    after = _marked(sink, store, name)
    if (after.topic_id, after.since) != (before.topic_id, before.since) or after.next_offset < before.next_offset:
        raise ViewError(f"the {name} of {store.view} was filled anew meanwhile", hint=f"headwater verify {store.view}")
    expected, recent = _expected(topic, before)
    wrong = [(kind, key) for kind, key in _wrong(expected, held, recent) if kind not in allowed]
    counts = {kind: sum(found == kind for found, _ in wrong) for kind in ("missing", "extra", "different")}
    shown = tuple(f"{kind} {key.decode()}" for kind, key in wrong[:examples])
    return SinkVerified(
        store.view,
        name,
        len(held),
        **counts,
        examples=shown,
        lsn=after.lsn,
        took_s=time.monotonic() - began,
        generation=generation,
        wrong=tuple((kind, key.decode()) for kind, key in wrong[:WRONG_MAX]),
    )


def _marked(sink: Sink, store: ViewStore, name: str) -> Mark:
    mark = sink.mark()
    if mark is None:
        raise ViewError(
            f"the {name} of {store.view} is not filled", detail="it has no mark", hint=f"headwater views {store.view}"
        )
    return mark


def _expected(topic: ViewTopic, mark: Mark) -> tuple[dict[bytes, bytes], dict[bytes, list[bytes]]]:
    """The topic's last word on every key up to the mark, and all that it has said since."""
    last: dict[bytes, bytes] = {}
    recent: dict[bytes, list[bytes]] = {}
    for piece in topic.changes(mark.since, topic.end()):
        for change in piece:
            row = ABSENT if change.after is None else change.after
            if change.version < mark.next_offset:
                last[change.key] = row
            else:
                recent.setdefault(change.key, []).append(row)
    return {key: row for key, row in last.items() if row != ABSENT}, recent


def _wrong(
    expected: dict[bytes, bytes], held: dict[bytes, bytes], recent: dict[bytes, list[bytes]]
) -> Iterator[tuple[str, bytes]]:
    for key in expected.keys() | held.keys():
        here, there = held.get(key, ABSENT), expected.get(key, ABSENT)
        if not is_one_of(here, (there, *recent.get(key, ()))):
            yield ("missing" if here == ABSENT else "extra" if there == ABSENT else "different"), key


def is_one_of(row: bytes, allowed: Iterable[bytes]) -> bool:
    """The same text, or the same values: a place may print a number with other zeros."""
    allowed = list(allowed)
    return row in allowed or (row != ABSENT and _plain(row) in [_plain(each) for each in allowed if each != ABSENT])


def _plain(row: bytes) -> object:
    return json.loads(row, parse_float=_number, parse_int=_number)


def _number(text: str) -> Decimal:
    return Decimal(text).normalize() + 0
