"""How much of the log is looked at for what caused a version: all of its epoch, or it is said; never all in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import cast

import pytest

from cdc.changelog import ChangeLog
from cdc.events import Begin, ChangeEvent, End, Entry, Op, TableName
from cdc.position import Lsn, Position
from headwater.views import causes as looked
from headwater.views.causes import Causes, Concerned, causes
from views.lineage import Part
from views.sqltypes import named

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ITEMS = TableName("public", "items")
CONCERNED = Concerned([Part(ITEMS, {"id": frozenset({"id"})}, {"id": named("integer")})], ("id",), [{"id": 7}])
AGENTS = TableName("public", "agents")
BESIDE = Concerned([*CONCERNED.uses, Part(AGENTS, {}, {})], ("id",), [{"id": 7, "agent_name": "B"}])
PER_TRANSACTION = 3


@dataclass(frozen=True)
class MemoryLog:
    """Transactions of one update each, of rows 0, 1, 2 … in turn."""

    transactions: int
    low: int = 0

    def bounds(self) -> tuple[Position, Position]:
        return self.position(self.low), self.position(self.transactions * PER_TRANSACTION)

    def position(self, offset: int) -> Position:
        return Position(1, offset)

    def entries(self, start: Position, end: Position) -> Iterator[Entry]:
        every = (entry for number in range(self.transactions) for entry in transaction(number, [number]))
        return (entry for entry in every if start.offset <= entry.position.offset < end.offset)


def transaction(number: int, ids: list[int], table: TableName = ITEMS) -> list[Entry]:
    at, lsn = Position(1, number * PER_TRANSACTION), Lsn(number)
    events = [
        ChangeEvent(
            Position(1, at.offset + 1), Op.UPDATE, table, None, {"id": id_}, lsn, number, NOW, NOW, {"id": id_}, None, 1
        )
        for id_ in ids
    ]
    end = End(Position(1, at.offset + 2), f"{number}:{lsn}", lsn, NOW, len(ids), {table: len(ids)})
    return [Begin(at, f"{number}:{lsn}", NOW), *events, end]


def told(log: MemoryLog, after: Position | None) -> Causes:
    return causes(cast("ChangeLog", log), CONCERNED, after, log.bounds()[1])


def test_a_cause_far_before_the_end_of_its_epoch_is_found() -> None:
    found = told(MemoryLog(20_000), Position(1, 0))
    assert ([each.xid for each in found.found], found.note) == ([7], "")
    assert told(MemoryLog(20_000), Position(1, 30)).found == (), "it was of the epoch before"


@pytest.mark.parametrize(
    ("after", "low", "note"),
    [
        (Position(1, 0), 0, "only the last 300 records"),
        (None, 0, "where its epoch began is not known: the last 90 records"),
        (Position(1, 2_800), 2_900, "no longer holds all"),
        (None, 2_950, ""),
    ],
)
def test_what_was_not_looked_at_is_said(
    monkeypatch: pytest.MonkeyPatch, after: Position | None, low: int, note: str
) -> None:
    monkeypatch.setattr(looked, "RECORDS_MAX", 300)
    monkeypatch.setattr(looked, "UNKNOWN_RECORDS_MAX", 90)
    found = told(MemoryLog(1_000, low), after)
    assert found.found == ()
    assert note in found.note
    assert bool(found.note) == bool(note)


def test_no_more_is_held_than_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looked, "CAUSES_MAX", 2)
    whole = transaction(0, [7] * 50)
    [cause] = looked.found(whole, CONCERNED)
    assert (len(cause.changes), cause.changes_left_out) == (looked.CHANGES_MAX, 50 - looked.CHANGES_MAX)
    log = MemoryLog(0)
    entries = [entry for number in range(5) for entry in transaction(number, [7])]
    monkeypatch.setattr(MemoryLog, "entries", lambda *_: iter(entries))
    monkeypatch.setattr(MemoryLog, "bounds", lambda _: (Position(1, 0), Position(1, 15)))
    found = told(log, Position(1, 0))
    assert ([each.xid for each in found.found], found.note) == ([0, 1], "3 more transactions are not told")


@pytest.mark.parametrize(("made_of", "xids"), [({ITEMS, AGENTS}, [0, 1, 2]), ({AGENTS}, [0, 1, 2]), ({ITEMS}, [1])])
def test_what_is_certain_hides_nothing_that_a_changed_column_is_made_of(
    monkeypatch: pytest.MonkeyPatch, made_of: set[TableName], xids: list[int]
) -> None:
    """The row itself was touched, but the column that changed may be an agent's."""
    entries = [*transaction(0, [5], AGENTS), *transaction(1, [7]), *transaction(2, [5], AGENTS)]
    monkeypatch.setattr(MemoryLog, "entries", lambda *_: iter(entries))
    log = cast("ChangeLog", MemoryLog(3))
    found = causes(log, replace(BESIDE, tables=made_of), Position(1, 0), Position(1, 9))
    assert [each.xid for each in found.found] == xids
    assert [each.role for each in found.found if each.xid != 1] == [looked.Role.POSSIBLE] * (len(xids) - 1)
    assert found.note == ""
    monkeypatch.setattr(looked, "CAUSES_MAX", 1)
    cut = causes(log, replace(BESIDE, tables=made_of), Position(1, 0), Position(1, 9))
    assert [each.xid for each in cut.found] == [1], "what is certain goes before"
    assert cut.note == ("2 more transactions are not told" if AGENTS in made_of else "")
