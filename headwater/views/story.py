"""The story of one row of a view: every version that is kept, what changed in it, and what caused that.

    warehouse: its versions ─┐
    topic: its records      ─┴▶ versions, oldest first ─▶ the change log: the transactions behind each (causes.py)

The topic has every version for a day; the warehouse, where the view is in it, has all. What is missing is said.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import msgspec

from cdc.archive import ArchiveReader
from cdc.changelog import ChangeLog
from cdc.events import TableName
from cdc.position import Position
from headwater.api.shapes import key_json
from headwater.deployment import Deployment
from headwater.views.causes import Causes, Concerned, causes
from headwater.views.key_text import named_values
from headwater.views.past import Past
from headwater.views.past_topic import Told, at_offset, of_key, position_before
from headwater.views.place import Place
from views.lineage import Part, Sources, parts, sources
from views.store import ViewStore

VERSIONS_MAX: Final = 20
"""The newest; older ones are counted."""
NO_CAUSES: Final = Causes(())


class Kind(StrEnum):
    APPEARED = "appeared"
    CHANGED = "changed"
    GONE = "gone"
    TOLD = "told"
    """Nobody's doing: the view was built, or the row was written again."""


@dataclass(frozen=True)
class ColumnChange:
    name: str
    before: str | None
    """As JSON; None where there was no row."""
    after: str | None


@dataclass(frozen=True)
class StoryVersion:
    version: int
    """Its offset in the view's topic."""
    kind: Kind
    position: Position
    """In the change log: the end of the epoch that brought it."""
    lsn: str
    """Of the last commit in that epoch."""
    committed_at: datetime | None
    published_at: datetime | None
    before: bytes | None
    after: bytes | None
    changed: tuple[ColumnChange, ...]
    causes: Causes = NO_CAUSES
    follows: bool = True
    """Whether it begins where the version before it ended: else some in between are no longer kept."""


@dataclass(frozen=True)
class Story:
    view: str
    key: str
    versions: tuple[StoryVersion, ...]
    """Oldest first."""
    left_out: int
    """Older versions that are kept, and not told here."""
    row: bytes | None
    """As it is now."""
    notes: tuple[str, ...] = field(default=())
    """What is no longer kept."""


def story(
    place: Place, view: str, key: Sequence[str], *, versions_max: int = VERSIONS_MAX, with_causes: bool = True
) -> Story:
    """`key` as people type it: the values in the key's order, or name=value."""
    past = Past.open(place, view)
    name = key_of(past.kept.store, key)
    found, notes = _versions(past, name)
    told = [_as_told(past, each) for each in found[-versions_max:]]
    earlier = found[: len(found) - len(told)]
    root = past.kept.group.plans[view].root
    log, made_of = log_of(place.deployment), _MadeOf(parts(root), sources(root))
    made: list[StoryVersion] = []
    last = earlier[-1].after if earlier else None
    for number, each in enumerate(told):
        follows = (number == 0 and not earlier) or each.before == last
        found_causes = _causes(past, log, made_of, each) if with_causes else NO_CAUSES
        made.append(_version(each, found_causes, follows=follows))
        last = each.after
    gaps = [version for version in made if not version.follows]
    if gaps:
        notes.append(f"before version {gaps[0].version} some are no longer kept: the topic has a day of every version")
    row = found[-1].after if found else None
    return Story(view, name.decode(), tuple(made), len(found) - len(told), row, tuple(notes))


def key_of(store: ViewStore, words: Sequence[str]) -> bytes:
    """As the view's topic writes it. A JSON object is taken as it is meant, too."""
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        given = json.loads(words[0], parse_float=str, parse_int=str)
        if isinstance(given, dict) and given.keys() == set(store.key):
            return key_json(store, [_text(given[name]) for name in store.key])
    values = named_values(store, words)
    return key_json(store, [values[name] for name in store.key])


def log_of(deployment: Deployment) -> ChangeLog:
    """Archive and Kafka as one."""
    settings = deployment.settings
    archive = ArchiveReader(deployment.source, settings.warehouse_folder) if settings.warehouse.archive else None
    return ChangeLog(deployment.kafka, deployment.source, archive)


@dataclass(frozen=True)
class _Seen:
    version: int
    before: bytes | None
    after: bytes | None
    told: Told | None
    """Its record in the topic, if that is still there and was asked for."""
    position: str = ""
    lsn: str = ""
    committed_at: datetime | None = None


def _versions(past: Past, key: bytes) -> tuple[list[_Seen], list[str]]:
    """Oldest first, from the warehouse and from what the topic has beyond it."""
    start, found, notes = past.frontier.since, list[_Seen](), list[str]()
    mark = past.warehouse.mark() if past.warehouse else None
    if past.warehouse is not None and mark is not None and mark.since == past.frontier.since:
        start = mark.next_offset
        before: bytes | None = None
        for version in past.warehouse.versions(key):
            if version.version >= start:
                break  # it has gone on since it was asked for its mark: the topic has that, too
            if found and found[-1].after is None and version.row is None:
                continue  # the tombstone after a deletion
            found.append(
                _Seen(
                    version.version,
                    before,
                    version.row,
                    None,
                    version.position,
                    version.lsn,
                    version.committed_at,
                )
            )
            before = version.row
        whole_from = past.warehouse.whole_from()
        if whole_from is None or whole_from > past.frontier.since:
            notes.append(f"before version {whole_from or start} the warehouse may lack some")
    elif past.warehouse is None:
        notes.append("the view is not in the warehouse: older versions than a day may be gone")
    for told in of_key(past.topic, start, past.frontier.next_offset, key):
        found.append(_Seen(told.change.version, told.change.before, told.change.after, told))
    return found, notes


def _as_told(past: Past, seen: _Seen) -> _Seen:
    """With its record, if the topic still has it: each costs a look at Kafka, so only those that are told have it."""
    record = seen.told or at_offset(past.topic, seen.version)
    return seen if record is None else replace(seen, before=record.change.before, told=record)


@dataclass(frozen=True)
class _MadeOf:
    """Tables in the view, and in its columns."""

    uses: Sequence[Part]
    columns: Sources

    def tables(self, before: bytes | None, after: bytes | None) -> set[TableName]:
        """Whose changes may be why these two differ. Whether there is a row at all, any of them may decide."""
        if before is None or after is None:
            return {use.table for use in self.uses}
        return {table for each in column_changes(before, after) for table in self.columns.get(each.name, ())}


def _causes(past: Past, log: ChangeLog, made_of: _MadeOf, seen: _Seen) -> Causes:
    """What is nobody's doing has none."""
    told = seen.told
    if told is not None and told.came.silent:
        return NO_CAUSES
    rows = [json.loads(row) for row in (seen.before, seen.after) if row is not None]
    after = None
    if past.warehouse is not None and seen.position:  # of the epoch before the topic may have let all go
        after = past.warehouse.position_before(seen.version, seen.position)
    if after is None and told is not None:
        after = position_before(past.topic, told, past.frontier.since)
    concerned = Concerned(made_of.uses, past.kept.store.key, rows, made_of.tables(seen.before, seen.after))
    return causes(log, concerned, after, _position(seen))


def _version(seen: _Seen, found: Causes, *, follows: bool) -> StoryVersion:
    told = seen.told
    return StoryVersion(
        seen.version,
        _kind(seen, is_silent=told is not None and told.came.silent),
        _position(seen),
        told.came.lsn if told else seen.lsn,
        _instant(told.came.committed_at_us) if told else seen.committed_at,
        _instant(told.came.published_at_us) if told else None,
        seen.before,
        seen.after,
        column_changes(seen.before, seen.after),
        found,
        follows,
    )


def _position(seen: _Seen) -> Position:
    return seen.told.position if seen.told else Position.parse(seen.position)


def _kind(seen: _Seen, *, is_silent: bool) -> Kind:
    if is_silent:
        return Kind.TOLD
    if seen.after is None:
        return Kind.GONE
    return Kind.APPEARED if seen.before is None else Kind.CHANGED


def column_changes(before: bytes | None, after: bytes | None) -> tuple[ColumnChange, ...]:
    old, new = _values(before), _values(after)
    return tuple(
        ColumnChange(name, old.get(name), new.get(name))
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    )


def _values(row: bytes | None) -> dict[str, str]:
    if row is None:
        return {}
    return {
        name: bytes(value).decode() for name, value in msgspec.json.decode(row, type=dict[str, msgspec.Raw]).items()
    }


def _instant(at_us: int | None) -> datetime | None:
    return None if at_us is None else datetime.fromtimestamp(at_us / 1e6, UTC)


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
