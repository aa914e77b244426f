"""Records of the real Debezium, parsed; and bytes that are none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from cdc.connector import PLACEHOLDER
from cdc.envelope import is_boundary, is_key_change, parse, table_of
from cdc.events import UNCHANGED, Begin, ChangeEvent, DeadLetter, End, Entry, Op, Record, Snapshot, TableName
from cdc.position import Position
from tests.cdc import golden_files

OWNER, PET = TableName("zoo", "owner"), TableName("zoo", "pet")
INITIAL = (Snapshot.FIRST, Snapshot.WITHIN, Snapshot.LAST)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
WORDS = st.sampled_from(
    [
        *("op", "r", "c", "u", "d", "t", "m", "source", "before", "after", "transaction", "status", "BEGIN", "END"),
        *("ts_ms", "ts_us", "snapshot", "last", "schema", "table", "lsn", "txId", "event_count", "data_collections"),
        *("message", "prefix", "content", "total_order", "id", "1:2", PLACEHOLDER),
    ]
)
NEARLY = st.recursive(st.none() | st.integers() | WORDS, lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner))


def record(value: bytes | None, key: bytes | None = None) -> Record:
    return Record(Position(1, 0), 0, key, value)


def of(table: TableName) -> list[ChangeEvent]:
    return [event for event in golden_files.events() if event.table == table]


def transactions() -> Iterator[list[Entry]]:
    """Everything between BEGIN and END, both included."""
    current: list[Entry] = []
    for entry in golden_files.entries():
        current = [entry] if isinstance(entry, Begin) else [*current, entry]
        if isinstance(entry, End):
            yield current
            current = []


def test_everything_that_debezium_wrote_is_understood() -> None:
    assert [entry for entry in golden_files.entries() if isinstance(entry, DeadLetter)] == []
    assert {event.op for event in golden_files.events()} == set(Op)


def test_a_transaction_is_begin_rows_end() -> None:
    for begin, *rows, end in transactions():
        assert isinstance(begin, Begin)
        assert isinstance(end, End)
        events = [row for row in rows if isinstance(row, ChangeEvent)]
        assert len(events) == len(rows)
        events = [event for event in events if event.snapshot is not Snapshot.INCREMENTAL]
        assert len(events) == end.events
        assert [event.order for event in events] == list(range(1, len(events) + 1))
        xid = int(end.transaction.partition(":")[0])
        assert {event.xid for event in events} == {xid}
        assert int(begin.transaction.partition(":")[0]) == xid
        assert all(event.lsn <= end.commit_lsn for event in events)
        tables = [event.table for event in events if event.op is not Op.MESSAGE]
        assert end.events_per_table == {table: tables.count(table) for table in tables}
        assert all(event.event_at.replace(microsecond=0) == end.at.replace(microsecond=0) for event in events)


def test_the_three_times_are_in_order() -> None:
    for record_, entry in zip(golden_files.records(), golden_files.entries(), strict=True):
        if isinstance(entry, ChangeEvent):
            assert entry.event_at <= entry.captured_at
            assert entry.captured_at.timestamp() * 1000 <= record_.written_at_ms + 1


def test_snapshot_rows_stand_first_and_outside_transactions() -> None:
    places = [entry.snapshot if isinstance(entry, ChangeEvent) else None for entry in golden_files.entries()]
    assert (places.count(Snapshot.FIRST), places.count(Snapshot.LAST)) == (1, 1)
    last = places.index(Snapshot.LAST)
    assert places[0] is Snapshot.FIRST
    assert set(places[1:last]) == {Snapshot.WITHIN}
    assert set(places[last + 1 :]) == {None, Snapshot.INCREMENTAL}
    rows = golden_files.events()[: last + 1]
    assert {(row.op, row.xid, row.order, row.before) for row in rows} == {(Op.READ, None, None, None)}


def test_rows_of_an_incremental_snapshot_stand_inside_the_running_log() -> None:
    (row,) = (event for event in golden_files.events() if event.snapshot is Snapshot.INCREMENTAL)
    assert (row.op, row.table, row.xid, row.order) == (Op.READ, TableName("zoo", "full_row"), None, None)
    assert row.after == {"id": 2, "v": "new", "xs": None}
    earlier = [event.lsn for event in golden_files.events() if event.position < row.position]
    assert row.lsn >= earlier[-1]


def test_a_changed_key_is_a_delete_and_an_insert() -> None:
    moves = [(a, b) for a, b in pairwise(golden_files.events()) if is_key_change(a, b)]
    pet, by_index = ((a, b) for a, b in moves)
    assert (pet[0].key, pet[1].key) == ({"owner_id": 1, "nick": "rex"}, {"owner_id": 1, "nick": "rexy"})
    assert pet[1].after is not None
    assert pet[1].after["data"] is UNCHANGED
    assert (by_index[0].key, by_index[1].key) == ({"code": "k1"}, {"code": "k2"})


def test_null_stays_null_where_the_column_has_a_default() -> None:
    rows = {event.after["id"]: event.after for event in of(OWNER) if event.after}
    assert rows[1]["note"] is None
    assert rows[4]["note"] is None
    assert rows[3]["note"] == "none"


def test_unchanged_values_are_marked_and_changed_ones_are_not() -> None:
    untouched, touched = (event.after for event in of(PET) if event.op is Op.UPDATE and event.after)
    assert [untouched[name] for name in ("bio", "data", "tags")] == [UNCHANGED] * 3
    assert [touched[name] for name in ("bio", "data", "tags")] == ["short", UNCHANGED, []]
    assert touched["snapshot"] == "true"


def test_generated_columns_come_through() -> None:
    assert {event.after["cents"] for event in of(PET) if event.after} == {950}


def test_truncate_names_its_tables_in_one_transaction() -> None:
    first, second = (event for event in golden_files.events() if event.op is Op.TRUNCATE)
    assert (first.table, second.table) == (OWNER, PET)
    assert first.xid == second.xid
    assert (first.key, first.before, first.after) == (None, None, None)


def test_messages() -> None:
    bound, loose, _ = (event for event in golden_files.events() if event.op is Op.MESSAGE)
    assert (bound.table, bound.message) == (TableName("", "headwater"), b"in a transaction")
    assert (loose.message, loose.xid, loose.order, loose.key) == (b"\x00\xff", None, None, None)


def test_rolled_back_work_is_not_there() -> None:
    assert "gone" not in {event.after["name"] for event in of(OWNER) if event.after}


def test_rows_of_a_partition_are_those_of_its_table() -> None:
    assert [event.op for event in of(TableName("zoo", "parted"))] == [Op.READ, Op.INSERT]
    assert of(TableName("zoo", "parted_eu")) == []


def test_names_that_are_odd() -> None:
    assert [event.op for event in of(TableName("zoo", "Odd, Näme"))] == [Op.READ, Op.UPDATE]


def test_tables_without_a_key_have_none_and_carry_the_old_row() -> None:
    events = of(TableName("zoo", "keyless"))
    assert {event.key is None for event in events} == {True}
    assert [event.before for event in events if event.op is Op.DELETE] == [{"a": 1, "b": "y"}] * 2


def test_boundaries_are_found_without_parsing() -> None:
    for record_, entry in zip(golden_files.records(), golden_files.entries(), strict=True):
        initial = isinstance(entry, ChangeEvent) and entry.snapshot in INITIAL
        assert is_boundary(record_.value or b"") == (initial or isinstance(entry, End)), record_.position


@given(st.text(), st.sampled_from(["true", "first", "last", "incremental", None]), st.sampled_from("rcud"))
@example('"op":"r"', None, "c")
@example(',"source":{"snapshot":"incremental"', "last", "r")
@example(',"source":{"snapshot":"last"', "incremental", "r")
def test_users_data_is_never_taken_for_a_boundary(text: str, place: str | None, op: str) -> None:
    """Whatever stands in a row, as names and as values, and whatever the tables are called."""
    source = {"version": "3", "ts_ms": 1, "snapshot": place, "db": text, "schema": text, "table": text, "lsn": 1}
    row = {text: text, "op": "r", "snapshot": "last", "source": {"snapshot": "last"}}
    times = {"ts_ms": 10**13, "ts_us": 10**16, "ts_ns": 10**19}
    change = {"before": row, "after": row, "source": source, "transaction": None, "op": op, **times}
    value = json.dumps(change, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")
    entry = parse(record(value))
    initial = isinstance(entry, ChangeEvent) and entry.snapshot in INITIAL
    if not isinstance(entry, DeadLetter):
        assert is_boundary(value) == initial


@given(st.none() | st.binary(), st.none() | st.binary())
def test_any_bytes_are_a_dead_letter(value: bytes | None, key: bytes | None) -> None:
    entry = parse(record(value, key))
    assert isinstance(entry, DeadLetter)
    assert (entry.key, entry.value) == (key, value)
    assert entry.error
    is_boundary(value or b"")


@given(JSON | NEARLY, JSON | NEARLY)
def test_any_json_is_an_entry(value: object, key: object) -> None:
    raw = json.dumps(value).encode()
    assert isinstance(parse(record(raw, json.dumps(key).encode())), Entry)
    is_boundary(raw)


@given(st.data())
def test_a_damaged_record_never_raises(data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from(golden_files.records()[-120:]))
    value = whole.value or b""
    at, length = data.draw(st.integers(0, len(value))), data.draw(st.integers(0, 20))
    damaged = value[:at] + data.draw(st.binary(max_size=20)) + value[at + length :]
    assert isinstance(parse(replace(whole, value=damaged)), Entry)


def test_a_key_that_is_no_key_is_a_dead_letter() -> None:
    insert = next(r for r in golden_files.records() if r.value and b'"op":"c"' in r.value)
    assert isinstance(parse(replace(insert, key=b"[1]")), DeadLetter)
    assert isinstance(parse(replace(insert, key=None)), ChangeEvent)


def test_the_table_is_told_without_parsing() -> None:
    """Exactly: what the views hand out by it must be what parsing would say."""
    for record, entry in zip(golden_files.records(), golden_files.entries(), strict=True):
        is_row = isinstance(entry, ChangeEvent) and entry.op is not Op.MESSAGE
        assert record.value is not None
        assert table_of(record.value) == (entry.table if is_row else None)


def test_text_that_looks_like_a_source_does_not_mislead() -> None:
    row = next(r for r in golden_files.records() if r.value and b'"op":"r"' in r.value)
    assert row.value is not None
    text = json.dumps(',"source":{"schema":"no","table":"no","txId":1')
    mislead = row.value.replace(b'"after":{', b'"after":{"note":' + text.encode() + b",", 1)
    assert table_of(mislead) == table_of(row.value)
