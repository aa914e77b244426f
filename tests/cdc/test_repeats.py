"""A row that the connector wrote twice is left out; whatever only looks like it is not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cdc.events import Begin, ChangeEvent, End, Entry, Op, TableName
from cdc.position import Lsn, Position
from cdc.repeats import without_repeats

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TABLE = TableName("public", "t")


def insert(offset: int, id_: int) -> ChangeEvent:
    row = {"id": id_}
    return ChangeEvent(Position(1, offset), Op.INSERT, TABLE, None, row, Lsn(500), 7, NOW, NOW, key=row, order=offset)


def test_a_row_right_behind_itself_is_left_out() -> None:
    begin: Entry = Begin(Position(1, 0), "7:500", NOW)
    rows = [insert(1, 10), insert(5, 10), insert(6, 11)]
    assert list(without_repeats([begin, *rows])) == [begin, rows[0], rows[2]]


@pytest.mark.parametrize(
    "other",
    [
        insert(2, 11),
        replace(insert(2, 10), lsn=Lsn(501)),
        replace(insert(2, 10), xid=8),
        replace(insert(2, 10), table=TableName("public", "u")),
        replace(insert(2, 10), key=None),
        replace(insert(2, 10), op=Op.UPDATE),
        replace(insert(2, 10), op=Op.READ, xid=None),
    ],
    ids=["key", "lsn", "transaction", "table", "without a key", "update", "snapshot"],
)
def test_what_differs_stays(other: ChangeEvent) -> None:
    entries = [insert(1, 10), other]
    assert list(without_repeats(entries)) == entries


def test_rows_without_a_key_may_be_the_same() -> None:
    rows = [replace(insert(n, 10), key=None) for n in (1, 2)]
    assert list(without_repeats(rows)) == rows


def test_another_transaction_between_them() -> None:
    end = End(Position(1, 2), "7:500", Lsn(510), NOW, 1, {})
    entries: list[Entry] = [insert(1, 10), end, insert(3, 10)]
    assert list(without_repeats(entries)) == entries


def test_a_number_that_the_transaction_has_passed_is_left_out() -> None:
    rows = [replace(insert(n, n), key=None, order=order) for n, order in enumerate([1, 2, 3, 2, 3, 4], start=1)]
    assert list(without_repeats(rows)) == [*rows[:3], rows[5]]


def test_numbers_begin_again_in_another_transaction() -> None:
    rows = [replace(insert(n, n), xid=n, order=1) for n in (1, 2, 3)]
    assert list(without_repeats(rows)) == rows


def test_a_row_of_a_snapshot_between_them() -> None:
    read = replace(insert(3, 30), op=Op.READ, xid=None, order=None)
    rows = [insert(1, 10), insert(2, 11), read, replace(insert(4, 11), order=2), insert(5, 12)]
    assert list(without_repeats(rows)) == [*rows[:3], rows[4]]
