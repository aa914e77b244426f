"""Who is meant: rows of the source by a condition or a key, what they were before by the log, and which of their values
nobody else has."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import psycopg
from psycopg import sql

from cdc.catalog import Table
from cdc.catalog_reader import describe
from cdc.envelope import parse
from cdc.errors import ConfigurationError, DecodeError, SourceError
from cdc.events import ChangeEvent, Record, TableName
from headwater.erasing.keys import exact_json, for_postgres
from headwater.erasing.person import Person, worth_looking_for

ROWS_MAX: Final = 1_000
LOOK_S_MAX: Final = 300
_TEXTUAL: Final = ("text", "varchar", "bpchar", "citext", "name", "uuid", "inet")
_COLUMNS: Final = """
    select column_name::text from information_schema.columns
    where table_schema = %s and table_name = %s and udt_name = any(%s) order by ordinal_position
"""
_PRINTED: Final = "set local intervalstyle = postgres; set local bytea_output = hex"
"""Whatever the database prints by default: keys are read again."""


def find_person(
    conn: psycopg.Connection, table: TableName, where: str, keys: Sequence[dict[str, Any]], log: Iterable[Record]
) -> Person:
    """`where` is SQL over the table, `keys` name rows that may be gone already. Reads only."""
    shape = _shape(conn, table)
    columns = [name for (name,) in conn.execute(_COLUMNS, [table.schema, table.name, list(_TEXTUAL)])]
    gone = [_typed(conn, shape, key) for key in keys]
    rows = _rows(conn, table, where, gone)
    named = {json.dumps(key): key for key in (tuple(row[name] for name in shape.key) for row in (*rows, *gone))}
    if not named:
        raise ConfigurationError(
            f"no row of {table} matches", detail=where, hint="rows that are gone already are named: --key id=5"
        )
    person = Person(shape, tuple(sorted(named.values(), key=str)), rows_in_source=len(rows))
    history = [*rows, *_past(log, person)]
    values: set[str] = set()
    shared: list[str] = []
    for column in columns:
        theirs = worth_looking_for(row.get(column) for row in history)
        others = _others(conn, table, column, theirs, person.key_objects) if theirs else set()
        values |= theirs - others
        shared += [column] if others else []
    return replace(person, values=frozenset(values), shared=tuple(shared))


def delete_rows(conn: psycopg.Connection, person: Person) -> int:
    """In the source. Raises SourceError where other rows refer to them."""
    statements = [
        sql.SQL("delete from {} t where ").format(_identifier(person.table)) + _same(person.table, key)
        for key in person.key_objects
    ]
    done = 0
    try:
        with conn.transaction():
            for statement in statements:
                done += conn.execute(statement).rowcount
    except psycopg.errors.ForeignKeyViolation as error:
        raise SourceError(
            f"other rows refer to those of {person.table}",
            detail=str(error).strip(),
            hint="erase or change those first; nothing was deleted",
        ) from error
    return done


def find_shape(conn: psycopg.Connection, table: TableName) -> Table | None:
    """As it is today; None if there is no such table."""
    found = describe(conn, [table])
    return Table.parse(found[0]) if found else None


def is_in_source(conn: psycopg.Connection, shape: Table | None, key: bytes | None) -> bool:
    """Whether a row that the log told of, by its key there, is there today. In doubt it is: a table without a key, a
    key that cannot be read."""
    if shape is None:
        return False
    asked = sql.SQL("select exists (select from {} t where ").format(_identifier(shape.name))
    try:
        values = {name: for_postgres(value) for name, value in shape.decode_key(json.loads(key or b"")).items()}
        with conn.transaction():
            row = conn.execute(asked + _same(shape.name, values) + sql.SQL(")")).fetchone()
    except (ValueError, DecodeError, psycopg.Error):
        return True
    return bool(row and row[0])


def _shape(conn: psycopg.Connection, table: TableName) -> Table:
    found = find_shape(conn, table)
    if found is None:
        raise ConfigurationError(f"no table {table}", hint="--table schema.name")
    if not found.key:
        raise ConfigurationError(
            f"{table} has no key", detail="its rows cannot be told apart", hint="add a primary key"
        )
    return found


def _rows(
    conn: psycopg.Connection, table: TableName, where: str, keys: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    conditions = [where] if where else []
    conditions += [_same(table, key).as_string(conn) for key in keys]
    head = sql.SQL("select to_jsonb(t)::text from {} t where ").format(_identifier(table)).as_string(conn)
    text = head + " or ".join(f"({each})" for each in conditions) + f" limit {ROWS_MAX + 1}"
    try:
        with conn.transaction():
            conn.execute("set transaction read only")
            conn.execute(_PRINTED)
            conn.execute(f"set local statement_timeout = '{LOOK_S_MAX}s'")
            found = [exact_json(row) for (row,) in conn.execute(text.replace("%", "%%"), [])]
    except psycopg.ProgrammingError as error:
        raise ConfigurationError(
            "the condition is not one of this table", detail=str(error).strip(), hint="--where \"email = 'x@y.z'\""
        ) from error
    if len(found) > ROWS_MAX:
        raise ConfigurationError(
            f"more than {ROWS_MAX} rows match", detail="that is no person", hint="narrow --where, or erase in parts"
        )
    return found


def _past(log: Iterable[Record], person: Person) -> list[dict[str, Any]]:
    """Their rows as the log has them."""
    found: list[dict[str, Any]] = []
    for record in log:
        entry = parse(record)
        if isinstance(entry, ChangeEvent) and entry.table == person.table:
            found += [dict(row) for row in (entry.before, entry.after) if row is not None and person.is_logged(row)]
    return found


def _others(
    conn: psycopg.Connection, table: TableName, column: str, values: set[str], keys: Sequence[dict[str, Any]]
) -> set[str]:
    """Those of the values that rows of others have, too. As they are printed: a cast to text takes blanks off char(n),
    and adds a mask to inet."""
    mine = sql.SQL(" or ").join(_same(table, key) for key in keys)
    statement = sql.SQL(
        "select distinct concat(t.{column}) from {table} t where concat(t.{column}) = any(%s) and not ({mine})"
    )
    asked = statement.format(column=sql.Identifier(column), table=_identifier(table), mine=mine)
    return {value for (value,) in conn.execute(asked, [sorted(values)])}


def _same(table: TableName, key: Mapping[str, Any]) -> sql.Composed:
    """Typed as the table's columns are, so that its index is used."""
    row = sql.Literal(json.dumps(dict(key)))
    parts = (
        sql.SQL("t.{column} = (select r.{column} from jsonb_populate_record(null::{table}, {row}::jsonb) r)").format(
            column=sql.Identifier(name), table=_identifier(table), row=row
        )
        for name in key
    )
    return sql.SQL(" and ").join(parts)


def _typed(conn: psycopg.Connection, shape: Table, given: dict[str, Any]) -> dict[str, Any]:
    """As Postgres prints it: 12345 in a column of text is "12345"."""
    if given.keys() != set(shape.key):
        raise ConfigurationError("not the table's key", detail=f"it is ({', '.join(shape.key)})", hint="--key id=5")
    asked = sql.SQL("select to_jsonb(jsonb_populate_record(null::{}, %s::jsonb))::text").format(_identifier(shape.name))
    try:
        with conn.transaction():
            conn.execute(_PRINTED)
            row = conn.execute(asked, [json.dumps(given)]).fetchone()
    except psycopg.DataError as error:
        raise ConfigurationError("not a key of the table", detail=str(error).strip(), hint="--key id=5") from error
    assert row is not None
    printed = exact_json(row[0])
    return {name: printed[name] for name in shape.key}


def _identifier(table: TableName) -> sql.Identifier:
    return sql.Identifier(table.schema, table.name)
