"""Where a connector that was cut off goes on: the offset that it is given, and whether it belongs to the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cdc.events import Begin, ChangeEvent, DeadLetter, End, Entry, Op, Snapshot, TableName
from cdc.position import Lsn, Position
from cdc.resuming import fits, set_back

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BEGIN = Begin(Position(1, 0), "7:500", NOW)
END = End(Position(1, 99), "6:400", Lsn(400), NOW, 1, {})
COUNTED = {"transaction_data_collection_order_public.t": 3, "transaction_data_collection_order_public.u": 1}
INSIDE = {
    "ts_usec": 1,
    "txId": 7,
    "lsn": 600,
    "lsn_proc": 600,
    "lsn_commit": 400,
    "lsn_events_processed": 2,
    "messageType": "INSERT",
    "transaction_id": "7",
    "incremental_snapshot_collections": "[]",
    **COUNTED,
}
BETWEEN = {**INSIDE, "lsn": 700, "lsn_proc": 700, "lsn_commit": 700, "messageType": "COMMIT"}
BEFORE = {"ts_usec": 1, "lsn": 300, "snapshot": "INITIAL", "snapshot_completed": False}


def row(order: int | None) -> ChangeEvent:
    after = {"id": 1}
    return ChangeEvent(
        Position(1, 5), Op.INSERT, TableName("public", "t"), None, after, Lsn(600), 7, NOW, NOW, after, order=order
    )


def chunk_row() -> ChangeEvent:
    return replace(row(None), op=Op.READ, xid=None, snapshot=Snapshot.INCREMENTAL)


def without(offset: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in offset.items() if name not in names}


def test_inside_a_transaction_it_goes_on_at_the_commit_before() -> None:
    assert set_back(INSIDE) == {
        "ts_usec": 1,
        "txId": 7,
        "lsn": 400,
        "lsn_proc": 400,
        "lsn_commit": 400,
        "messageType": "COMMIT",
        "transaction_id": "7",
        "incremental_snapshot_collections": "[]",
    }


def test_without_a_commit_it_goes_on_where_the_slot_is() -> None:
    offset = set_back(without(INSIDE, "lsn_commit"))
    assert offset == {**without(INSIDE, "lsn_commit", "lsn_proc", "messageType", "lsn_events_processed", *COUNTED)}


@pytest.mark.parametrize(
    "offset", [BETWEEN, BEFORE, set_back(INSIDE)], ids=["between transactions", "in the snapshot", "set back already"]
)
def test_left_as_it_is(offset: dict[str, Any]) -> None:
    assert set_back(offset) is None


@pytest.mark.parametrize(
    ("log", "offset"),
    [
        ([BEGIN, row(1), row(4)], INSIDE),
        ([BEGIN, row(1), row(4), chunk_row(), DeadLetter(Position(1, 6), None, b"", "")], INSIDE),
        ([BEGIN], without(INSIDE, *COUNTED)),
        ([], INSIDE),
    ],
    ids=["a change", "a change, then others", "BEGIN", "no log"],
)
def test_an_offset_fits_its_log(log: Sequence[Entry], offset: dict[str, Any]) -> None:
    assert fits(offset, reversed(log))


@pytest.mark.parametrize(
    "log",
    [[BEGIN, row(3)], [BEGIN], [row(4), END], [BEGIN, replace(row(4), xid=8)], [replace(row(None), op=Op.READ)]],
    ids=["a change before", "BEGIN", "END", "another transaction", "a snapshot"],
)
def test_an_offset_of_another_instant(log: Sequence[Entry]) -> None:
    assert not fits(INSIDE, reversed(log))


def test_no_more_is_read_than_needed() -> None:
    def endless() -> Iterator[Entry]:
        yield row(4)
        raise AssertionError("read on")

    assert fits(INSIDE, endless())
