"""What made a row of a view change: the transactions of an epoch, from the change log, and which of their changes can
have had a part in it.

A version of a row belongs to an epoch: some whole transactions, up to its position. Of these, changes of the view's
tables are told, unless the view's plan rules them out (views/lineage.py). `direct` ones are linked to the row by their
values; `possible` ones cannot be told apart by values that the log has.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from cdc.changelog import ChangeLog
from cdc.errors import EraEnded, LogError, PositionExpired, TopicRecreated
from cdc.events import UNCHANGED, ChangeEvent, Op, Row
from cdc.position import Lsn, Position
from cdc.transactions import Transaction
from views.lineage import Part
from views.sqltypes import Family

RECORDS_MAX: Final = 5_000
"""So far before an epoch's end its beginning is looked for."""
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


def causes(log: ChangeLog, concerned: Concerned, after: Position | None, end: Position) -> Causes:
    """What led to a version that is in the view at `end`, and was not at `after`."""
    start, note = _start(log, after, end)
    if start is None:
        return Causes((), note)
    try:
        transactions = list(log.transactions(start, end))
    except (PositionExpired, TopicRecreated, EraEnded) as error:
        return Causes((), f"the log no longer holds it: {error.fact}")
    except LogError as error:
        return Causes((), error.fact)
    found = [cause for each in transactions if (cause := _cause(each, concerned)) is not None]
    certain = [cause for cause in found if cause.role is Role.DIRECT]
    return Causes(tuple(certain or found), note)


def _start(log: ChangeLog, after: Position | None, end: Position) -> tuple[Position | None, str]:
    low, _ = log.bounds()
    known = after is not None and after.era == end.era
    offset = max(after.offset if after and known else 0, end.offset - RECORDS_MAX)
    if low.era > end.era or low.offset >= end.offset:
        return None, "the log no longer holds what caused it"
    return log.position(max(offset, low.offset)), ""


def _cause(transaction: Transaction, concerned: Concerned) -> Cause | None:
    changes = [
        CausingChange(event.position, str(event.table), event.op.value, event.key, changed(event), role)
        for event in transaction.events
        if isinstance(event, ChangeEvent) and (role := role_of(event, concerned)) is not Role.NONE
    ]
    if not changes:
        return None
    changes.sort(key=lambda change: (change.role is not Role.DIRECT, change.position))
    end, events = transaction.end, [each for each in transaction.events if isinstance(each, ChangeEvent)]
    return Cause(
        events[0].xid,
        end.commit_lsn if end else events[0].lsn,
        end.at if end else events[0].event_at,
        transaction.first,
        transaction.last,
        tuple(changes[:CHANGES_MAX]),
        max(0, len(changes) - CHANGES_MAX),
    )


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
