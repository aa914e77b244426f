"""The canary: every number once, in order, or a gap is proven; and nothing is proven that is not."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.canary import Proven, after
from cdc.events import Record
from cdc.position import Position
from tests.cdc.log_writer import envelope
from views.maintain.intake import Note, counted, hand_out
from views.maintain.nodes import RECORDS

START = Proven(era=7, offset=0)


def row(
    number: int, *, table: str = "canary", op: str = "u", snapshot: str = "false", xid: int = 0, order: int = 1
) -> bytes:
    xid = xid or number
    column = {"canary": "number", "heartbeat": "beats"}[table]
    transaction = {"id": f"{xid}:1", "total_order": order, "data_collection_order": order} if op == "u" else None
    values = ({"id": 1, column: number - 1} if op == "u" else None), {"id": 1, column: number}
    told = envelope(*values, op, snapshot=snapshot, xid=xid, lsn=number, transaction=transaction)
    told["source"] = {**told["source"], "schema": "headwater", "table": table}  # type: ignore[dict-item]
    return json.dumps(told, separators=(",", ":")).encode()


def records(values: Iterable[bytes], start: int = 0) -> list[Record]:
    return [Record(Position(7, start + n), 0, b'{"id":1}', value) for n, value in enumerate(values)]


def noted(values: Iterable[bytes], start: int = 0) -> Note:
    note = Note()
    rows = [{"offset": start + n, "written_at_ms": 0, "value": value} for n, value in enumerate(values)]
    assert not list(hand_out([pa.RecordBatch.from_pylist(rows, RECORDS)], {}, note))
    return note


def test_numbers_that_follow_each_other_prove_that_nothing_is_missing() -> None:
    proven = after(START, records([row(4, op="r", snapshot="true"), *map(row, range(5, 30))]))
    assert (proven.offset, proven.gap) == (26, "")
    assert proven.canary is not None
    assert proven.canary.number == 29


@pytest.mark.parametrize("table", ["canary", "heartbeat"])
@pytest.mark.parametrize(
    ("numbers", "gap"),
    [([5, 6, 8, 9], "8 after 6"), ([5, 6, 5], "5 after 6"), ([5, 6, 6], "6 after 6"), ([5, 9, 20], "9 after 5")],
    ids=["missing", "went back", "twice by two transactions", "the first one counts"],
)
def test_anything_else_is_a_gap(table: str, numbers: list[int], gap: str) -> None:
    values = [row(number, table=table, xid=100 + place) for place, number in enumerate(numbers)]
    proven = after(START, records(values))
    assert gap in proven.gap
    assert proven.gap_offset >= 0
    assert after(proven, records([row(21, table=table)], proven.offset)).gap == proven.gap, "it does not heal"


def test_what_the_snapshot_read_is_where_counting_begins() -> None:
    assert "7 after 5" in after(START, records([row(5, op="r", snapshot="true"), row(7)])).gap


def test_a_transaction_that_was_cut_off_comes_again() -> None:
    twice = [row(5, xid=9, order=1), row(6, xid=9, order=2)]
    assert not after(START, records([row(4), *twice, *twice, row(7)])).gap


def test_an_incremental_snapshot_counts_nothing() -> None:
    assert not after(START, records([row(4), row(9, op="r", snapshot="incremental"), row(5)])).gap


def test_the_two_are_counted_apart() -> None:
    proven = after(START, records([row(4), row(100, table="heartbeat"), row(5), row(101, table="heartbeat")]))
    assert not proven.gap


@given(st.sets(st.integers(1, 40)), st.lists(st.integers(0, 60)), st.integers(1, 5))
def test_readers_of_epochs_notice_every_number_that_is_missing(lost: set[int], cuts: list[int], pieces: int) -> None:
    """However the log is cut into epochs, and these into pieces that are read by several tasks and put together in any
    order."""
    numbers = [number for number in range(60) if number not in lost]
    ends = sorted({min(cut, len(numbers)) for cut in cuts} | {len(numbers)})
    known, missing, start = None, "", 0
    for end in ends:
        note = Note()
        for piece in reversed(range(pieces)):
            size = -(-(end - start) // pieces)
            begin, until = min(end, start + piece * size), min(end, start + (piece + 1) * size)
            note = note.plus(noted([row(number) for number in numbers[begin:until]], begin))
        known, found = counted(known, note.canary)
        missing, start = missing or found, end
    assert bool(missing) == bool(lost)
    assert known == 59
    if lost:
        assert f"after {min(lost) - 1}," in missing


def test_a_number_that_comes_again_is_none_that_is_missing() -> None:
    assert counted(6, noted([row(6), row(6), row(7)]).canary) == (7, "")
    assert counted(None, noted([row(6)]).canary) == (6, "")
    assert counted(6, noted([row(9, op="r", snapshot="incremental")]).canary) == (6, "")
