"""The warehouse on real Delta tables, read back by DuckDB and pyarrow. What every sink keeps to is in test_contract."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from msgspec.structs import replace as replace_structs

from cdc.archive_delta import DeltaFolder, Merge, Snapshot
from cdc.errors import SinkError, SinkUnavailable, StateFenced, ViewError
from headwater.warehouse_sql import run_sql
from tests.sinks.places import gone, held, mark, shape, upsert
from views.plan import Field
from views.sinks import warehouse_bequest
from views.sinks.sink import Change, Mark, Refused, ViewShape
from views.sinks.warehouse import Upkeep, WarehouseKind, WarehouseSink
from views.sinks.warehouse_notes import Note
from views.sqltypes import NUMERIC, array_of, named, numeric


@pytest.fixture
def kind(tmp_path: Path) -> WarehouseKind:
    return WarehouseKind(str(tmp_path / "warehouse"))


def opened(kind: WarehouseKind, **options: str) -> WarehouseSink:
    sink = kind.open(shape("source", **options), 1)
    sink.prepare()
    return sink


def step(next_offset: int, at_s: int) -> Mark:
    return Mark(
        "topic-1",
        next_offset,
        era=1,
        offset=next_offset * 10,
        lsn=f"0/{at_s}",
        committed_at_us=at_s * 10**6,
        published_at_us=2**62,
    )


def test_versions_replays_and_looking_back(kind: WarehouseKind, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = opened(kind)
    first = [upsert(1, 0, "a"), upsert(2, 1, "b"), upsert(1, 2, "c")]
    sink.apply(first, step(3, 30), [step(2, 20)])
    second = [gone(1, 3), upsert(2, 4, "d"), upsert(3, 5, "e")]
    with monkeypatch.context() as killed:
        killed.setattr(WarehouseSink, "_keep", lambda *_: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            sink.apply(second, step(6, 60))
    sink = opened(kind)  # killed between the two tables: the mark is that of the rows
    assert (sink.mark(), held(sink)) == (step(3, 30), {1: "c", 2: "b"})
    sink.apply([*first[1:], *second, upsert(4, 6, "f")], step(7, 70))
    assert (sink.mark(), held(sink)) == (step(7, 70), {2: "d", 3: "e", 4: "f"})

    def asked(text: str, as_of: str | None = None) -> list[tuple[object, ...]]:
        return [tuple(row.values()) for row in run_sql(kind.folder, "source", text, as_of).to_pylist()]

    versions = "select id, label, epoch(valid_from), epoch(valid_to) from items_history order by _version"
    assert asked(versions) == [
        (1, "a", 20.0, 30.0),
        (2, "b", 20.0, 60.0),
        (1, "c", 30.0, 60.0),
        (2, "d", 60.0, None),
        (3, "e", 60.0, None),
        (4, "f", 70.0, None),
    ]
    rows = "select id, label from items order by id"
    assert asked(rows) == [(2, "d"), (3, "e"), (4, "f")]
    assert asked(rows, "1970-01-01T00:00:29Z") == asked(rows, "0/20") == asked(rows, "1:25") == [(1, "a"), (2, "b")]
    assert asked(rows, "0/30") == [(1, "c"), (2, "b")]
    with pytest.raises(ViewError, match="does not include 0/71 yet"):
        asked(rows, "0/71")
    with pytest.raises(ViewError, match="does not reach back"):
        asked(rows, "1:19")


def test_a_generation_takes_over_what_the_topic_has_let_go(
    kind: WarehouseKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filled late from a compacted topic it says that it is not whole; then it knows all that the one before it did."""
    told = [upsert(1, 0, "a"), upsert(2, 1, "b"), upsert(1, 2, "c"), gone(2, 3), upsert(1, 4, "d"), upsert(3, 5, "e")]
    old = opened(kind)
    old.apply(told, step(6, 60), [step(n + 1, 10 * n + 10) for n in range(5)])
    new = kind.open(shape("source"), 2)
    new.prepare()
    late = replace_structs(step(6, 60), published_at_us=1)
    new.apply(told[4:5], replace_structs(late, next_offset=5), [replace_structs(step(5, 50), published_at_us=1)])
    new.apply(told[5:], late)
    kind.switch("source", "items", 2)
    ask = partial(run_sql, kind.folder, "source")
    with pytest.raises(ViewError, match="is not whole"):
        ask("select * from items", "0/50")
    monkeypatch.setattr(warehouse_bequest, "VERSIONS_MAX", 2)
    pieces = new.inherit(old)
    assert (next(pieces), next(pieces)) == (0, 2), "the newest first; what the topic told is there"
    new = kind.open(shape("source"), 2)  # killed: who comes next goes on
    assert sum(new.inherit(old)) == 2
    assert list(new.inherit(old)) == []
    everything = "select id, label, _version, _lsn, valid_to from items_history order by _version"
    found = ask(everything).to_pylist()
    rows = [ask("select id, label from items order by id", f"0/{at}").to_pylist() for at in (10, 20, 30, 40, 50, 60)]
    kind.switch("source", "items", 1)
    assert found == ask(everything).to_pylist()
    assert rows == [
        ask("select id, label from items order by id", f"0/{at}").to_pylist() for at in (10, 20, 30, 40, 50, 60)
    ]
    assert (new.mark(), held(new)) == (late, {1: "d", 3: "e"})
    DeltaTable(Path(kind.folder, "source", "items", "g2", "current")).delete("id = 1")
    new.prepare()
    assert held(new) == {1: "d", 3: "e"}, "and the rows can be made of it"


def test_nothing_is_taken_over_of_another_topic_or_from_who_is_behind(kind: WarehouseKind) -> None:
    old = opened(kind)
    old.apply([upsert(1, 0, "a"), upsert(1, 1, "b")], step(2, 20))
    for late in (mark(9, since=5), mark(9)):
        new = kind.open(shape("source"), 2)
        new.drop()
        new.prepare()
        new.apply([upsert(1, 8, "c")], late)
        assert list(new.inherit(old)) == []


def test_a_dead_letter_that_was_mended_comes_late_and_once(kind: WarehouseKind) -> None:
    sink = opened(kind)
    poison = Change(b'{"id":1}', b'{"id":1,"label":"x","price":"NaN"}', 1)
    refused = sink.apply([poison, upsert(2, 2), gone(3, 3)], mark(4))
    assert [item.change for item in refused] == [poison]
    for _ in range(2):
        sink.apply([upsert(1, 1, "mended"), upsert(3, 0, "stale")], mark(4))
    assert held(sink) == {1: "mended", 2: "x"}
    assert run_sql(kind.folder, "source", "select count(*) n from items_history where id = 1").to_pylist() == [{"n": 1}]


def test_what_others_did_is_noticed(kind: WarehouseKind) -> None:
    sink = opened(kind, partition_by="label")
    sink.apply([upsert(1, 1, "a"), upsert(2, 2, "b")], mark(3))
    base = Path(kind.folder, "source", "items", "g1")
    tended = replace(kind, upkeep=Upkeep(small_files_max=0, vacuum_every_s=0))
    tended.open(shape("source", partition_by="label"), 1).tend()
    assert sink.mark() == mark(3), "upkeep changes no row"
    assert DeltaTable(base / "current").metadata().partition_columns == ["label"]
    DeltaTable(base / "current").delete("id = 1")
    assert sink.mark() is None
    sink.prepare()
    assert (sink.mark(), held(sink)) == (mark(3), {1: "a", 2: "b"})
    history = DeltaTable(base / "history")
    write_deltalake(history, history.to_pyarrow_table(), mode="append")
    assert sink.mark() is None
    sink.prepare()
    assert (sink.mark(), held(sink)) == (None, {})
    sink.apply([upsert(1, 1, "again")], mark(3))
    assert held(sink) == {1: "again"}


def test_of_two_writers_one_is_refused(kind: WarehouseKind) -> None:
    sink = opened(kind)
    sink.apply([upsert(1, 1)], mark(2))
    folder = DeltaFolder(Path(kind.folder, "source", "items", "g1", "current"))
    late, later = folder.look(), folder.look()
    assert late is not None
    assert later is not None
    rows = late.table.to_pyarrow_table()
    sink.apply([upsert(1, 2)], mark(3))
    with pytest.raises(StateFenced):
        late.append(rows, Note(mark(9), 9))
    with pytest.raises(StateFenced):
        later.merge(rows, Merge("t.id = s.id", "true", "false", rows.column_names), Note(mark(9), 9))
    assert (sink.mark(), held(sink)) == (mark(3), {1: "x"})
    wider = replace(shape("source"), fields=(*shape("source").fields, Field("more", named("text"))))
    with pytest.raises(SinkError, match="another shape"):
        kind.open(wider, 1).prepare()


def test_a_place_that_was_made_anew_does_not_claim_what_it_lost(kind: WarehouseKind) -> None:
    sink, other = opened(kind), opened(kind)
    sink.apply([upsert(1, 1)], mark(2))
    other.drop()
    other.prepare()
    with pytest.raises(SinkUnavailable, match="has lost items"):
        sink.apply([upsert(2, 2)], mark(3))
    assert sink.mark() is None
    # The same, with the new table made between deciding and writing.
    other.apply([upsert(1, 1)], mark(2))
    folder = DeltaFolder(Path(kind.folder, "source", "items", "g1", "current"))
    decided = folder.look()
    assert decided is not None
    rows = decided.table.to_pyarrow_table()
    other.drop()
    other.prepare()
    other.apply([upsert(5, 5)], mark(6))
    decided.append(rows, Note(mark(9), 9))
    assert other.mark() is None


def test_files_that_were_taken_away_are_noticed(kind: WarehouseKind) -> None:
    sink = opened(kind, partition_by="label")
    sink.apply([upsert(1, 1, "a b/ü%"), upsert(2, 2, "x='\"#?")], mark(3))
    assert (sink.mark(), held(sink)) == (mark(3), {1: "a b/ü%", 2: "x='\"#?"})
    next(Path(kind.folder, "source", "items", "g1", "current").rglob("*.parquet")).unlink()
    assert sink.mark() is None
    sink.prepare()
    assert (sink.mark(), len(held(sink))) == (mark(3), 2)


def test_a_commit_counts_whatever_fails_behind_it(kind: WarehouseKind, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = opened(kind)
    append = Snapshot._append

    def cut_off(self: Snapshot, *given: Any) -> None:
        append(self, *given)
        raise OSError("the disk is full")

    monkeypatch.setattr(Snapshot, "_append", cut_off)
    sink.apply([upsert(1, 1)], mark(2))
    assert sink.mark() == mark(2)
    sink.apply([upsert(1, 1)], mark(2))
    assert run_sql(kind.folder, "source", "select count(*) n from items_history").to_pylist() == [{"n": 1}]
    monkeypatch.setattr(Snapshot, "_append", Mock(side_effect=OSError("the disk is full")))
    with pytest.raises(SinkUnavailable, match="the disk is full"):
        sink.apply([upsert(2, 2)], mark(3))


def test_upkeep_between_deciding_and_writing_is_no_other_writer(kind: WarehouseKind) -> None:
    sink = opened(kind)
    for version in (1, 2):
        sink.apply([upsert(version, version)], mark(version + 1))
    folder = DeltaFolder(Path(kind.folder, "source", "items", "g1", "history"))
    decided = folder.look()
    assert decided is not None
    assert decided.small_files() == 1
    DeltaTable(folder.path).optimize.compact()  # by hand
    assert sink.mark() == mark(3)
    with pytest.raises(SinkUnavailable):
        decided.append(decided.table.to_pyarrow_table(), Note(mark(9), 9))
    sink.apply([upsert(3, 3)], mark(4))
    assert (sink.mark(), set(held(sink))) == (mark(4), {1, 2, 3})


@pytest.mark.parametrize("key", [(), ("label",), ("label", "id")])
def test_keys_may_be_null_or_nothing(kind: WarehouseKind, key: tuple[str, ...]) -> None:
    sink = kind.open(replace(shape("source", "my view~1"), key=key), 1)
    sink.prepare()
    told = {name: value for name, value in (("label", "null"), ("id", "1")) if name in key}
    at = ("{" + ",".join(f'"{name}":{value}' for name, value in told.items()) + "}").encode()
    for version in (1, 2, 3):
        sink.apply([Change(at, b'{"id":1,"label":null,"price":%d.00}' % version, version)], mark(version + 1))
    assert list(sink.rows()) == [b'{"id":1,"label":null,"price":3.00}']
    assert run_sql(kind.folder, "source", 'select count(*) n from "my view~1_history"').to_pylist() == [{"n": 3}]
    sink.apply([Change(at, None, 4)], mark(5))
    assert list(sink.rows()) == []


def test_it_is_written_from_any_process(kind: WarehouseKind) -> None:
    opened(kind).apply([upsert(1, 1, "here")], mark(2))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(_apply, kind, [upsert(2, 2, "there")], mark(3)).result(60) == []
    assert held(opened(kind)) == {1: "here", 2: "there"}


def _apply(kind: WarehouseKind, changes: list[Change], until: Mark) -> list[Refused]:
    return kind.open(shape("source"), 1).apply(changes, until)


def test_every_type_is_exact_on_disk(kind: WarehouseKind) -> None:
    columns = {
        "n": (numeric(38, 4), "-1234567890123456789012345678901234.5678", pa.decimal128(38, 4)),
        "free": (NUMERIC, '"NaN"', pa.string()),
        "at": (named("timestamp with time zone"), '"infinity"', pa.timestamp("us", "UTC")),
        "local": (named("timestamp without time zone"), '"4714-11-24T00:00:00 BC"', pa.timestamp("us")),
        "day": (named("date"), '"-infinity"', pa.date32()),
        "doc": (named("jsonb"), '{"a": 1.10, "b": [null]}', pa.string()),
        "raw": (named("bytea"), '"\\\\x00ff"', pa.binary()),
        "a list": (array_of(named("timestamp with time zone")), '["1500-01-01T00:00:00+00:00",null]', None),
        "f": (named("double precision"), '"-Infinity"', pa.float64()),
        "r": (named("real"), "0.1", pa.float32()),
        "s": (named("smallint"), "-32768", pa.int16()),
        "took": (named("interval"), '"1 year 2 mons -3 days +04:05:06"', pa.string()),
    }
    fields = tuple(Field(name, type_) for name, (type_, _, _) in columns.items())
    sink = kind.open(replace(shape("source"), fields=fields, key=("s",)), 1)
    sink.prepare()
    row = "{" + ",".join(f'"{name}":{text}' for name, (_, text, _) in columns.items()) + "}"
    empty = "{" + ",".join(f'"{name}":{"7" if name == "s" else "null"}' for name in columns) + "}"
    for version in (1, 3):  # first by append, then by merge
        changes = [Change(b"", text.encode(), version + place) for place, text in enumerate((row, empty))]
        assert sink.apply(changes, mark(version + 2)) == []
    assert sorted(sink.rows()) == sorted([row.encode(), empty.encode()])
    found = run_sql(kind.folder, "source", "select * from items")
    wanted = {name: arrow for name, (_, _, arrow) in columns.items() if arrow is not None}
    assert {name: found.schema.field(name).type for name in wanted} == wanted
    protocol = DeltaTable(Path(kind.folder, "source", "items", "g1", "current")).protocol()
    assert set(protocol.reader_features or ()) == {"timestampNtz"}, "Spark reads it"


def test_rows_are_read_by_a_key_of_text(tmp_path: Path) -> None:
    """However many files the table has by then."""
    columns = (Field("city", named("text"), nullable=False), Field("n", named("integer")))
    sink = WarehouseKind(str(tmp_path), 1.0).open(ViewShape("lab", "cities", columns, ("city",)), 1)
    sink.prepare()
    for turn in range(3):
        cities = (b"Rome", b"Oslo %d" % turn)
        rows = [(b'{"city":"%s"}' % city, b'{"city":"%s","n":%d}' % (city, turn)) for city in cities]
        sink.apply([Change(key, row, 2 * turn + place) for place, (key, row) in enumerate(rows)], mark(2 * turn + 2))
    found = sink.read([b'{"city":"Rome"}', b'{"city":"Oslo 1"}', b'{"city":"Bonn"}'])
    assert found == {b'{"city":"Rome"}': b'{"city":"Rome","n":2}', b'{"city":"Oslo 1"}': b'{"city":"Oslo 1","n":1}'}


def test_rows_of_a_shape_that_is_not_there_yet_are_not_read(kind: WarehouseKind) -> None:
    opened(kind).apply([upsert(1, 0, "a")], mark(1))
    changed = replace(shape("source"), fields=(*shape("source").fields, Field("twice", named("integer"))))
    sink = kind.open(changed, 1)
    with pytest.raises(SinkUnavailable, match="twice"):
        list(sink.rows())
    with pytest.raises(SinkUnavailable, match="twice"):
        sink.read([upsert(1, 0, "a").key])


@pytest.mark.parametrize("is_by_key", [True, False])
def test_a_generation_that_goes_while_it_is_read_is_lost(
    kind: WarehouseKind, monkeypatch: pytest.MonkeyPatch, is_by_key: bool
) -> None:
    sink, readable = opened(kind), WarehouseSink._readable
    sink.apply([upsert(1, 0, "a")], mark(1))

    def gone_then(self: WarehouseSink) -> object:
        found = readable(self)
        self.drop()
        return found

    monkeypatch.setattr(WarehouseSink, "_readable", gone_then)
    with pytest.raises(SinkUnavailable, match="has lost"):
        sink.read([upsert(1, 0, "a").key]) if is_by_key else list(sink.rows())
