"""Entries become whole transactions; what does not pair is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.errors import LogError
from cdc.events import Begin, ChangeEvent, DeadLetter, End, Entry, Op, Snapshot, TableName
from cdc.position import Lsn, Position
from cdc.transactions import assemble

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def at(offset: int) -> Position:
    return Position(1, offset)


def begin(offset: int) -> Begin:
    return Begin(at(offset), f"{offset}:1", NOW)


def end(offset: int, events: int = 0) -> End:
    return End(at(offset), f"{offset}:1", Lsn(offset), NOW, events, {})


def change(offset: int, order: int | None = 1, snapshot: Snapshot | None = None) -> ChangeEvent:
    table = TableName("public", "t")
    op = Op.READ if snapshot else Op.INSERT
    return ChangeEvent(at(offset), op, table, None, {}, Lsn(offset), 7, NOW, NOW, snapshot=snapshot, order=order)


def whole(rows: list[int]) -> tuple[list[Entry], list[tuple[int, int]]]:
    """A log of transactions with so many rows each, and where each begins and ends."""
    entries: list[Entry] = []
    extents = []
    for count in rows:
        first = len(entries)
        entries.append(begin(first))
        entries.extend(change(first + 1 + index) for index in range(count))
        entries.append(end(len(entries), count))
        extents.append((first, len(entries) - 1))
    return entries, extents


@given(st.lists(st.integers(0, 5), max_size=6), st.data())
def test_from_any_place_to_any_place_only_whole_transactions_come(rows: list[int], data: st.DataObject) -> None:
    entries, extents = whole(rows)
    first = data.draw(st.integers(0, len(entries)))
    last = data.draw(st.integers(first, len(entries)))
    found = [(each.first.offset, each.last.offset) for each in assemble(entries[first:last])]
    assert found == [extent for extent in extents if first <= extent[0] and extent[1] < last]


def test_what_stands_outside_transactions_is_one_of_its_own() -> None:
    letter = DeadLetter(at(1), None, b"?", "not json")
    entries = [change(0, None, Snapshot.LAST), letter, begin(2), change(3), end(4), change(5, None)]
    assert [len(each.events) for each in assemble(entries)] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "entries",
    [
        [begin(0), change(1), begin(2)],
        [begin(0), end(1), end(2)],
        [begin(0), end(1), change(2)],
    ],
)
def test_markers_that_do_not_pair_are_refused(entries: list[Entry]) -> None:
    with pytest.raises(LogError, match="out of order at 1:2"):
        list(assemble(entries))


def test_a_transaction_too_large_to_hold_is_refused() -> None:
    entries, _ = whole([3])
    assert len(list(assemble(entries, events_max=3))) == 1
    with pytest.raises(LogError, match="more than 2 events"):
        list(assemble(entries, events_max=2))
