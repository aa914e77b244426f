"""What made a row of a view change: the transactions of an epoch, from the change log, and which of their changes can
have had a part in it.

A version of a row belongs to an epoch: some whole transactions, up to its position. Of these, changes of the view's
tables are told, unless the view's plan rules them out (views/lineage.py). `direct` ones are linked to the row by their
values; `possible` ones cannot be told apart by values that the log has. Where there are direct ones, of these are told
those of tables that a changed column is made of: a direct one need not be why that column changed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from cdc.changelog import ChangeLog
from cdc.errors import EraEnded, LogError, PositionExpired, TopicRecreated
from cdc.events import UNCHANGED, Begin, ChangeEvent, End, Entry, Op, Row, TableName
from cdc.position import Lsn, Position
from views.lineage import Part
from views.sqltypes import Family

RECORDS_MAX: Final = 200_000
"""Read of the log before an epoch's end: more than an epoch has, unless one transaction alone is larger."""
UNKNOWN_RECORDS_MAX: Final = 5_000
"""The same where nobody knows any more where the epoch began."""
CAUSES_MAX: Final = 100
"""Transactions told of one version; the others are counted."""
CHANGES_MAX: Final = 20
"""Told of one transaction; the others are counted."""
_COMPARED: Final = (Family.INTEGER, Family.TEXT, Family.BOOLEAN)
"""Families whose values read the same in the log and in a row's JSON."""


class Role(StrEnum):
    DIRECT = "direct"
    POSSIBLE = "possible"
    NONE = "none"


@dataclass(frozen=True)
class CausingChange:
    position: Position
    table: str
    op: str
    key: Row | None
    changed: tuple[tuple[str, object, object], ...]
    """Column, before, after; None where the log has no value."""
    role: Role


@dataclass(frozen=True)
class Cause:
    """A transaction, with its changes that can have had a part."""

    xid: int | None
    lsn: Lsn | None
    """Of the commit."""
    committed_at: datetime | None
    first: Position
    last: Position
    changes: tuple[CausingChange, ...]
    changes_left_out: int = 0

    @property
    def role(self) -> Role:
        return Role.DIRECT if any(each.role is Role.DIRECT for each in self.changes) else Role.POSSIBLE

    def is_of(self, tables: Collection[TableName]) -> bool:
        return not {str(table) for table in tables}.isdisjoint(each.table for each in self.changes)


@dataclass(frozen=True)
class Causes:
    found: tuple[Cause, ...]
    note: str = ""
    """Why there are none, or not all."""


@dataclass(frozen=True)
class Concerned:
    """A row of a view: what a change must fit to have had a part in it."""

    uses: Sequence[Part]
    """Of tables in the view."""
    key: Collection[str]
    rows: Sequence[Mapping[str, object]]
    """Its values before and after, whichever there are."""
    tables: Collection[TableName] = ()
    """That may be why these differ: of a changed row, those that the columns which changed are made of."""


def causes(log: ChangeLog, concerned: Concerned, after: Position | None, end: Position) -> Causes:
    """What led to a version that is in the view at `end`, and was not at `after`."""
    start, note = _start(log, after, end)
    if start is None:
        return Causes((), note)
    certain, beside, possible = _Told(), _Told(), _Told()
    try:
        for cause in found(log.entries(start, end), concerned):
            if cause.role is Role.DIRECT:
                certain.add(cause)
                continue
            possible.add(cause)
            if cause.is_of(concerned.tables):
                beside.add(cause)
    except (PositionExpired, TopicRecreated, EraEnded) as error:
        return Causes((), f"the log no longer holds it: {error.fact}")
    except LogError as error:
        return Causes((), error.fact)
    told = certain.with_(beside) if certain.causes else possible
    more = f"{told.left_out:,} more transactions are not told" if told.left_out else ""
    return Causes(tuple(told.causes), "; ".join(filter(None, (note, more))))


def _start(log: ChangeLog, after: Position | None, end: Position) -> tuple[Position | None, str]:
    """Where to read from, and what is left out by that."""
    low, _ = log.bounds()
    if low.era > end.era or low.offset >= end.offset:
        return None, "the log no longer holds what caused it"
    if after is None or after.era != end.era:
        offset = max(low.offset, end.offset - UNKNOWN_RECORDS_MAX)
        cut = f"where its epoch began is not known: the last {UNKNOWN_RECORDS_MAX:,} records were looked at"
        return log.position(offset), cut if offset > low.offset else ""
    offset = max(after.offset, end.offset - RECORDS_MAX)
    note = f"only the last {RECORDS_MAX:,} records before it were looked at" if offset > after.offset else ""
    if offset < low.offset:
        offset, note = low.offset, "the log no longer holds all of what came before it"
    return log.position(offset), note


@dataclass
class _Told:
    causes: list[Cause] = field(default_factory=list)
    left_out: int = 0

    def add(self, cause: Cause) -> None:
        if len(self.causes) < CAUSES_MAX:
            self.causes.append(cause)
        else:
            self.left_out += 1

    def with_(self, others: _Told) -> _Told:
        """In the order of the log; of too many, these."""
        room = CAUSES_MAX - len(self.causes)
        causes = sorted((*self.causes, *others.causes[:room]), key=lambda cause: cause.first)
        return _Told(causes, self.left_out + others.left_out + len(others.causes[room:]))


@dataclass
class _Open:
    """A transaction of which no more is held than is told."""

    first: Position
    one: ChangeEvent | None = None
    """A change of it, for its number."""
    changes: list[CausingChange] = field(default_factory=list)
    left_out: int = 0

    def take(self, event: ChangeEvent, concerned: Concerned) -> None:
        self.one = self.one or event
        role = role_of(event, concerned)
        if role is Role.NONE:
            return
        self.changes.append(
            CausingChange(event.position, str(event.table), event.op.value, event.key, changed(event), role)
        )
        if len(self.changes) > CHANGES_MAX:
            self.changes.sort(key=_weight)
            self.changes.pop()
            self.left_out += 1

    def cause(self, last: Position, end: End | None) -> Cause | None:
        if not self.changes or self.one is None:
            return None
        lsn, at = (end.commit_lsn, end.at) if end else (self.one.lsn, self.one.event_at)
        changes = tuple(sorted(self.changes, key=_weight))
        return Cause(self.one.xid, lsn, at, self.first, last, changes, self.left_out)


def _weight(change: CausingChange) -> tuple[bool, Position]:
    return change.role is not Role.DIRECT, change.position


def found(entries: Iterable[Entry], concerned: Concerned) -> Iterator[Cause]:
    """The transactions among the entries that can have had a part, each once it has ended. What began before the first
    entry or ends after the last is left out; a row outside transactions is one of its own."""
    begun: _Open | None = None
    for entry in entries:
        ended: Cause | None = None
        if isinstance(entry, Begin):
            begun = _Open(entry.position)
        elif isinstance(entry, End):
            ended, begun = begun.cause(entry.position, entry) if begun is not None else None, None
        elif isinstance(entry, ChangeEvent) and begun is not None:
            begun.take(entry, concerned)
        elif isinstance(entry, ChangeEvent) and entry.order is None:
            alone = _Open(entry.position)
            alone.take(entry, concerned)
            ended = alone.cause(entry.position, None)
        if ended is not None:
            yield ended


def role_of(event: ChangeEvent, concerned: Concerned) -> Role:
    """The strongest over the uses of its table."""
    found = {_role(event, use, concerned) for use in concerned.uses if use.table == event.table}
    return next((role for role in (Role.DIRECT, Role.POSSIBLE) if role in found), Role.NONE)


def _role(event: ChangeEvent, use: Part, concerned: Concerned) -> Role:
    """Only by what does not change on the way: the key of the view, and that of the table. Of another column an epoch
    may have had values that neither of the rows has."""
    if event.op is Op.TRUNCATE:
        return Role.POSSIBLE
    verdicts = []
    for column, names in use.links.items():
        linked = names if column in (event.key or {}) else names & set(concerned.key)
        if linked and use.types[column].family in _COMPARED:
            verdicts.append(_linked(event, column, linked, concerned.rows))
    if any(verdict is False for verdict in verdicts):
        return Role.NONE
    return Role.DIRECT if verdicts and all(verdicts) else Role.POSSIBLE


def _linked(
    event: ChangeEvent, column: str, names: Collection[str], rows: Sequence[Mapping[str, object]]
) -> bool | None:
    """Whether the row has one of the change's values in the view's column; None if the log does not have them all."""
    sides = [side for side in (event.before, event.after, event.key) if side is not None]
    values = {_text(side[column]) for side in sides if column in side and side[column] is not UNCHANGED}
    if any(_text(row.get(name)) in values for row in rows for name in names):
        return True
    is_whole = event.op in (Op.INSERT, Op.READ) or column in (event.key or {}) or _has(event.before, column)
    return False if is_whole and values else None


def _has(row: Row | None, column: str) -> bool:
    """Where only the key is logged of an old row, its other columns are NULL: that says nothing."""
    return row is not None and row.get(column) not in (None, UNCHANGED)


def changed(event: ChangeEvent) -> tuple[tuple[str, object, object], ...]:
    """What the log says of each column that is not as it was."""
    before, after = event.before or {}, event.after or {}
    names = [name for name in dict.fromkeys((*before, *after)) if UNCHANGED not in (before.get(name), after.get(name))]
    return tuple((name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name))


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
