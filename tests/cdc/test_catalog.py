"""The catalog follows the log, and rows are decoded by the shape that their table had then."""

from __future__ import annotations

import pickle
from dataclasses import replace

import psycopg
import pytest

from cdc.addresses import PostgresAddress
from cdc.catalog import CATALOG_TABLE, Catalog, Column, Table
from cdc.catalog_reader import load
from cdc.errors import DecodeError, SourceError
from cdc.events import UNCHANGED, ChangeEvent, Op, TableName
from cdc.pgtypes import TypeSpec, pg_type
from tests.cdc import golden_files, zoo

OWNER = TableName("zoo", "owner")


def items(replica_identity: str = "d") -> Table:
    columns = (
        Column("id", pg_type(TypeSpec("integer", "integer")), not_null=True),
        Column("price", pg_type(TypeSpec("numeric(12,2)", "numeric(12,2)"))),
        Column("cents", pg_type(TypeSpec("bigint", "bigint")), generated=True),
    )
    return Table(1, TableName("app", "items"), columns, ("id",), replica_identity)


def catalog_events() -> list[ChangeEvent]:
    return [event for event in golden_files.events() if event.table == CATALOG_TABLE]


def test_every_row_of_the_log_is_decoded_by_the_catalog_in_the_log() -> None:
    """Also those before and after a column was added and dropped. The snapshot brings rows before the catalog's."""
    catalog = Catalog()
    for event in golden_files.events():
        if event.op is Op.READ:
            catalog = catalog.apply(event)
    shapes = set()
    for event in golden_files.events():
        catalog = catalog.apply(event)
        if event.op in (Op.TRUNCATE, Op.MESSAGE):
            continue
        table = catalog.table(event.table)
        if event.after is not None:
            assert table.decode(event.after).keys() == event.after.keys()
        if event.before is not None:
            assert set(table.key) <= table.decode_before(event.before).keys()
        if event.key is not None:
            assert table.decode_key(event.key).keys() == event.key.keys()
        if event.table == OWNER:
            shapes.add(tuple(column.name for column in table.columns))
    assert shapes == {
        ("id", "name", "note", "born"),
        ("id", "name", "note", "born", "age"),
        ("id", "name", "born", "age"),
    }


def test_the_captured_catalog_and_postgres_own_say_the_same() -> None:
    """The types of both are the same, so both have one shape."""
    captured = Catalog()
    for event in catalog_events():
        if event.op is Op.READ:
            captured = captured.apply(event)
    for table in golden_files.catalog().tables.values():
        assert captured.table(table.name) == table


def test_applying_twice_changes_nothing() -> None:
    catalog = Catalog()
    for event in catalog_events():
        catalog = catalog.apply(event)
        assert catalog.apply(event) == catalog


def test_other_tables_do_not_touch_it() -> None:
    catalog = Catalog.of([items()])
    event = next(event for event in golden_files.events() if event.table == OWNER)
    assert catalog.apply(event) is catalog


def test_a_renamed_table_has_one_description() -> None:
    event = next(e for e in catalog_events() if (e.after or {}).get("table_name") == "owner")
    catalog = Catalog().apply(event)
    renamed = replace(event, op=Op.UPDATE, after={**(event.after or {}), "table_name": "keeper"})
    assert list(catalog.apply(renamed).by_name) == [TableName("zoo", "keeper")]


def test_a_deleted_and_a_truncated_description() -> None:
    event = next(e for e in catalog_events() if (e.after or {}).get("table_name") == "owner")
    catalog = Catalog().apply(event)
    assert catalog.apply(replace(event, op=Op.DELETE, before=event.after, after=None)) == Catalog()
    assert catalog.apply(replace(event, op=Op.TRUNCATE, after=None)) == Catalog()


def test_a_description_that_is_not_whole_is_refused() -> None:
    event = catalog_events()[0]
    with pytest.raises(DecodeError, match="whole row"):
        Catalog().apply(replace(event, after={**(event.after or {}), "columns": UNCHANGED}))
    with pytest.raises(DecodeError, match="not a description"):
        Catalog().apply(replace(event, after={"relation": 5}))


def test_decoding_keeps_null_and_unchanged() -> None:
    assert items().decode({"id": 1, "price": UNCHANGED}) == {"id": 1, "price": UNCHANGED}
    assert items().decode({"id": 1, "price": None, "cents": 5}) == {"id": 1, "price": None, "cents": 5}


@pytest.mark.parametrize(
    ("row", "difference"),
    [
        ({"id": 1}, "-price"),
        ({"id": 1, "price": "1", "colour": "red"}, "+colour"),
        ({"id": 1, "colour": "red"}, "+colour, -price"),
    ],
)
def test_other_columns_than_the_catalogs_are_refused_with_the_difference(
    row: dict[str, object], difference: str
) -> None:
    with pytest.raises(DecodeError, match="does not have the columns") as caught:
        items().decode(row)
    assert caught.value.detail == f"against the catalog: {difference}"


def test_a_value_that_does_not_fit_names_table_column_and_type() -> None:
    with pytest.raises(DecodeError) as caught:
        items().decode({"id": 1, "price": "dear"})
    assert caught.value.fact == "a value of app.items.price is not a numeric(12,2)"
    assert "'dear'" in caught.value.detail


def test_the_old_row_is_only_trusted_as_far_as_it_is_true() -> None:
    before = {"id": 1, "price": "0"}
    assert items("d").decode_before(before) == {"id": 1}
    assert items("f").decode_before(before).keys() == {"id", "price"}


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"app\.nothing"):
        Catalog.of([items()]).table(TableName("app", "nothing"))


def test_catalogs_travel_to_workers() -> None:
    assert pickle.loads(pickle.dumps(golden_files.catalog())) == golden_files.catalog()


@pytest.mark.stack
def test_reading_the_catalog_of_a_running_postgres(postgres: PostgresAddress) -> None:
    with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
        for statement in zoo.create_sql():
            conn.execute(statement)
        catalog = load(conn, [TableName(*name) for name in zoo.tables()])
        for name, table in catalog.by_name.items():
            assert replace(table, relation=0) == replace(golden_files.catalog().table(name), relation=0)
        with pytest.raises(SourceError, match=r"zoo\.unicorn"):
            load(conn, [TableName("zoo", "unicorn")])
