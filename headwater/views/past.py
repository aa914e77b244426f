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
from cdc.position import Lsn, Position
from headwater.views.kept import Frontiers, KeptView, open_view
from headwater.views.past_topic import Bound, between, bound_of, require_reached
from headwater.views.past_warehouse import PastWarehouse
from headwater.views.place import Place
from headwater.views.view_sinks import topic_of
from headwater.warehouse_sql import AsOf, parse_as_of
from views.maintain.publisher import Frontier
from views.sinks.following import ViewTopic
from views.sinks.sink import Mark

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

    def in_topic(self, when: AsOf | None) -> Bound:
        return bound_of(self.topic, self.frontier, when)

    def in_warehouse(self, when: AsOf | None) -> int | str:
        """Before which version that point lies in the warehouse's history, or why that cannot say."""
        mark = self.warehouse.mark() if self.warehouse is not None else None
        if self.warehouse is None:
            return "it is not in the warehouse"
        if mark is None or mark.since != self.frontier.since:
            return "the warehouse is being filled"
        if mark.next_offset < self.frontier.next_offset and (when is None or _is_beyond(when, mark)):
            return "the warehouse is not so far yet"
        before = mark.next_offset if when is None else self.warehouse.before(when, self.frontier.era)
        whole_from = self.warehouse.whole_from()
        if before is None or whole_from is None or before < whole_from:
            since = self.warehouse.whole_since()
            return f"its history in the warehouse is whole since {since.isoformat() if since else 'now'} only"
        return before


def point(when: str) -> AsOf | None:
    """None is now."""
    return None if when.strip().lower() in ("", NOW) else parse_as_of(when)


def view_at(place: Place, view: str, when: str, rows_max: int | None = ROWS_MAX, keys_max: int = KEYS_MAX) -> PastRows:
    """The rows of a view as they were at an instant, an LSN or a position. Raises ViewError where that is not kept."""
    past, wanted = Past.open(place, view), point(when)
    require_reached(past.frontier, wanted)
    before = past.in_warehouse(wanted)
    if past.warehouse is not None and isinstance(before, int):
        total, rows = past.warehouse.rows(before, rows_max)
        return PastRows(view, when, total, tuple(rows), "warehouse")
    bound = past.in_topic(wanted)
    if not bound.is_whole:
        raise _gone(view, when, before)
    last: dict[bytes, bytes] = {}
    for told in between(past.topic, past.frontier.since, bound.offset):
        if told.change.after is None:
            last.pop(told.change.key, None)
        else:
            last[told.change.key] = told.change.after
        if len(last) > keys_max:
            raise ViewError(
                f"view {view} has more than {keys_max:,} rows",
                detail="too many to be put together from its topic",
                hint=f"CREATE MATERIALIZED VIEW {view} WITH (sinks = 'warehouse') AS …",
            )
    shown = sorted(last)[:rows_max]
    return PastRows(view, when, len(last), tuple(last[key] for key in shown), "topic")


def diff(place: Place, view: str, from_: str, to: str = NOW, examples: int = EXAMPLES) -> Diff:
    """What leads from a view as it was at one point to the view as it was at another."""
    past, points = Past.open(place, view), (from_, to)
    for each in points:
        require_reached(past.frontier, point(each))
    told = _from_topic(past, points)
    if isinstance(told, tuple):
        _require_order(view, points, told)
        return _diff(past, points, _net(past.topic, *told), examples, "topic")
    kept = [past.in_warehouse(point(each)) for each in points]
    if past.warehouse is None or not all(isinstance(each, int) for each in kept):
        raise told or _gone(view, from_, *kept)
    start, end = (each for each in kept if isinstance(each, int))
    _require_order(view, points, (start, end))
    return _diff(past, points, past.warehouse.changes(start, end), examples, "warehouse")


def _from_topic(past: Past, points: tuple[str, str]) -> tuple[int, int] | ViewError | None:
    """Where both lie, if the topic has every version from the first on; or why it does not even know that one."""
    try:
        start = past.in_topic(point(points[0]))
    except ViewError as error:
        return error
    return (start.offset, past.in_topic(point(points[1])).offset) if start.is_whole else None


def _require_order(view: str, points: tuple[str, str], offsets: tuple[int, int]) -> None:
    if offsets[1] < offsets[0]:
        from_, to = points
        raise ViewError(f"{to} lies before {from_}", detail=f"of {view}", hint=f"headwater diff {view} {to} {from_}")


def _is_beyond(when: AsOf, mark: Mark) -> bool:
    if isinstance(when, Position):
        return when > Position(mark.era, mark.offset)
    if isinstance(when, Lsn):
        return when > Lsn.parse(mark.lsn)
    return when.timestamp() * 1e6 > (mark.committed_at_us or mark.published_at_us)


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


def _gone(view: str, when: str, *kept: int | str) -> ViewError:
    why = next((each for each in kept if isinstance(each, str)), "")
    return ViewError(
        f"{view} at {when} is no longer kept",
        detail=f"its topic keeps every version for a day, and {why}",
        hint=f"CREATE MATERIALIZED VIEW {view} WITH (sinks = 'warehouse') AS … keeps every version from then on",
    )
