"""A view as it was, and what differs between two points of its past: from its topic while that has every version, and
from the warehouse beyond that. Plain functions for the command line, HTTP and the console.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from cdc.errors import ViewError
from headwater.views.kept import Frontiers, KeptView, open_view
from headwater.views.past_topic import Bound, between, bound_of
from headwater.views.past_warehouse import PastWarehouse
from headwater.views.place import Place
from headwater.views.view_sinks import topic_of
from headwater.warehouse_sql import AsOf, parse_as_of
from views.maintain.publisher import Frontier
from views.sinks.following import ViewTopic

ROWS_MAX: Final = 1_000
EXAMPLES: Final = 5
KEYS_MAX: Final = 2_000_000
"""Of a view without a warehouse, in memory at once."""
NOW: Final = "now"


@dataclass(frozen=True)
class PastRows:
    view: str
    at: str
    rows_total: int
    rows: tuple[bytes, ...]
    """As JSON: all of them, or the first."""
    source: str
    """Where they were found: topic or warehouse."""


@dataclass(frozen=True)
class Differs:
    kind: str
    """added, removed or changed."""
    key: str
    before: bytes | None
    after: bytes | None
    columns: tuple[str, ...] = ()
    """Those that differ, of a row that changed."""


@dataclass(frozen=True)
class Diff:
    view: str
    from_: str
    to: str
    added: int
    removed: int
    changed: int
    columns: dict[str, int]
    """In how many of the changed rows each column differs, the most frequent first."""
    examples: tuple[Differs, ...]
    source: str


@dataclass(frozen=True)
class Past:
    """A view, opened for looking back."""

    place: Place
    kept: KeptView
    frontier: Frontier
    topic: ViewTopic
    warehouse: PastWarehouse | None

    @classmethod
    def open(cls, place: Place, view: str) -> Past:
        known = Frontiers(place.deployment.kafka, place.deployment.source).look()
        kept = open_view(place.registry, known, view)
        warehouse = None
        if "warehouse" in kept.group.declared[view].sinks:
            shape = kept.group.shape(view, place.deployment.source)
            warehouse = PastWarehouse.of(place.deployment.settings.warehouse_folder, shape)
        return cls(place, kept, known[view], topic_of(place, view), warehouse)

    def bound(self, when: str) -> Bound:
        return bound_of(self.topic, self.frontier, point(when))

    def warehouse_at(self, *offsets: int) -> PastWarehouse | None:
        """The warehouse, if it includes what lies before these offsets."""
        mark = self.warehouse.mark() if self.warehouse else None
        is_there = mark is not None and mark.since == self.frontier.since and mark.next_offset >= max(offsets)
        return self.warehouse if is_there else None


def point(when: str) -> AsOf | None:
    """None is now."""
    return None if when.strip().lower() in ("", NOW) else parse_as_of(when)


def view_at(place: Place, view: str, when: str, rows_max: int | None = ROWS_MAX) -> PastRows:
    """The rows of a view as they were at an instant, an LSN or a position. Raises ViewError where that is not kept."""
    past = Past.open(place, view)
    bound = past.bound(when)
    warehouse = past.warehouse_at(bound.offset)
    if warehouse is not None:
        total, rows = warehouse.rows(bound.offset, rows_max)
        return PastRows(view, when, total, tuple(rows), "warehouse")
    if not bound.is_whole:
        raise _gone(view, when)
    last: dict[bytes, bytes] = {}
    for told in between(past.topic, past.frontier.since, bound.offset):
        if told.change.after is None:
            last.pop(told.change.key, None)
        else:
            last[told.change.key] = told.change.after
        if len(last) > KEYS_MAX:
            raise ViewError(
                f"view {view} has more than {KEYS_MAX:,} rows",
                detail="too many to be put together from its topic",
                hint=f"CREATE MATERIALIZED VIEW {view} WITH (sinks = 'warehouse') AS …",
            )
    shown = sorted(last)[:rows_max]
    return PastRows(view, when, len(last), tuple(last[key] for key in shown), "topic")


def diff(place: Place, view: str, from_: str, to: str = NOW, examples: int = EXAMPLES) -> Diff:
    """What leads from a view as it was at one point to the view as it was at another."""
    past = Past.open(place, view)
    start, end = past.bound(from_), past.bound(to)
    if end.offset < start.offset:
        raise ViewError(f"{to} lies before {from_}", detail=f"of {view}", hint=f"headwater diff {view} {to} {from_}")
    if start.is_whole:
        return _diff(past, (from_, to), _net(past.topic, start.offset, end.offset), examples, "topic")
    warehouse = past.warehouse_at(start.offset, end.offset)
    if warehouse is None:
        raise _gone(view, from_)
    return _diff(past, (from_, to), warehouse.changes(start.offset, end.offset), examples, "warehouse")


def _net(topic: ViewTopic, start: int, end: int) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Of each key that changed: its row before its first change, and after its last."""
    found: dict[bytes, tuple[bytes | None, bytes | None]] = {}
    for told in between(topic, start, end):
        change = told.change
        first = found[change.key][0] if change.key in found else change.before
        found[change.key] = first, change.after
    yield from found.values()


def _diff(
    past: Past,
    points: tuple[str, str],
    pairs: Iterable[tuple[bytes | None, bytes | None]],
    examples: int,
    source: str,
) -> Diff:
    counts, columns, shown = Counter[str](), Counter[str](), list[Differs]()
    for before, after in pairs:
        found = differs(past.kept.store.key, before, after)
        if found is None:
            continue
        counts[found.kind] += 1
        columns.update(found.columns)
        if len(shown) < examples:
            shown.append(found)
    return Diff(
        past.kept.view,
        *points,
        counts["added"],
        counts["removed"],
        counts["changed"],
        dict(columns.most_common()),
        tuple(shown),
        source,
    )


def differs(key: tuple[str, ...], before: bytes | None, after: bytes | None) -> Differs | None:
    """None where nothing does."""
    row = after if after is not None else before
    if row is None or before == after:
        return None
    values = _values(row)
    name = msgspec.json.encode({column: values[column] for column in key}).decode()
    if before is None or after is None:
        return Differs("added" if before is None else "removed", name, before, after)
    old = _values(before)
    columns = tuple(column for column, value in values.items() if bytes(old.get(column, b"")) != bytes(value))
    return Differs("changed", name, before, after, columns) if columns else None


def _values(row: bytes) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(row, type=dict[str, msgspec.Raw])


def _gone(view: str, when: str) -> ViewError:
    return ViewError(
        f"{view} at {when} is no longer kept",
        detail="its topic keeps every version for a day, and it is not in the warehouse, or that is not so far",
        hint=f"CREATE MATERIALIZED VIEW {view} WITH (sinks = 'warehouse') AS … keeps every version from then on",
    )
