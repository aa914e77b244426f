"""One look at a view beside its SQL in Postgres: every row of both, in bounded memory.

Postgres' rows come through a cursor on the server, and the store is asked for each by its key; then the store's keys
are looked up among those that came, of which a number each is remembered (8 bytes a row). Rows are equal when their
JSON is, byte by byte, or as values: numbers by their value, floats to 9 digits, because a sum of floats depends on the
order in which Postgres happens to add them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import msgspec
import numpy as np
import psycopg
from psycopg import sql

from cdc.errors import ConfigurationError
from headwater.views.kept import KeptView
from headwater.views.key_text import encoded
from headwater.views.row_numbers import Numbers, among, numbers_of
from headwater.views.row_values import Number, row_values
from views.maintain.contents import key_json
from views.plan import Field
from views.sqltypes import Family
from views.store import ViewStore

CHUNK_ROWS: Final = 2_000
AGAIN_KEYS_MAX: Final = 1_000
DIFFERING_MAX: Final = 50_000
"""Rows that differ beyond so many are not looked for: the view is broken, not a row of it."""
FLOAT_TOLERANCE: Final = 1e-9
_ALIAS: Final = "headwater_view"


class Kind(StrEnum):
    MISSING = "missing"
    EXTRA = "extra"
    DIFFERENT = "different"


@dataclass(frozen=True)
class Differing:
    """A row that is not the same in both."""

    key: str
    """As JSON."""
    encoded: bytes
    postgres: bytes | None
    view: bytes | None

    @property
    def kind(self) -> Kind:
        if self.view is None:
            return Kind.MISSING
        return Kind.EXTRA if self.postgres is None else Kind.DIFFERENT


@dataclass
class Look:
    rows_postgres: int = 0
    rows_view: int = 0
    differing: dict[str, Differing] = field(default_factory=dict)

    @property
    def is_cut(self) -> bool:
        return len(self.differing) >= DIFFERING_MAX

    def add(self, found: Differing) -> None:
        if not self.is_cut:
            self.differing[found.key] = found


class Comparison:
    """Over a transaction in Postgres that sees one moment; the view may go on meanwhile."""

    def __init__(self, kept: KeptView, conn: psycopg.Connection) -> None:
        self._kept, self._conn = kept, conn
        self._floats = [f.name for f in kept.store.fields if f.type.family is Family.FLOAT]

    def all(self, on_rows: Callable[[int], None] = lambda _: None) -> Look:
        """`on_rows` is told of rows as they are done, Postgres' and the view's."""
        look = Look()
        seen: list[Numbers] = []
        for rows in self._postgres(self._sql()):
            keys = self._compared(rows, look)
            seen.append(numbers_of(keys))
            on_rows(len(rows))
        known = np.sort(np.concatenate(seen)) if seen else np.empty(0, np.int64)
        for chunk in self._kept.chunks():
            look.rows_view += len(chunk)
            numbers = numbers_of(key for key, _ in chunk)
            for place in np.flatnonzero(~among(numbers, known)):
                key, row = chunk[int(place)]
                look.add(Differing(key_json(self._kept.store, row).decode(), key, None, row))
            on_rows(len(chunk))
        return look

    def cost(self, suspects: Collection[Differing]) -> float:
        """What Postgres' planner says that `again` costs it."""
        query = "EXPLAIN (FORMAT JSON) " + self._sql(suspects)
        [[found]] = self._conn.execute(query.encode(), [[suspect.key for suspect in suspects]]).fetchall()
        return float(found[0]["Plan"]["Total Cost"])

    def again(self, suspects: Collection[Differing]) -> Look:
        """The same for some keys."""
        if not suspects:
            return Look()
        if len(suspects) > AGAIN_KEYS_MAX:
            whole = self.all()
            wanted = {suspect.key for suspect in suspects}
            whole.differing = {key: found for key, found in whole.differing.items() if key in wanted}
            return whole
        look, left = Look(), {suspect.encoded: suspect for suspect in suspects}
        for rows in self._postgres(self._sql(suspects), [suspect.key for suspect in suspects]):
            for key in self._compared(rows, look):
                left.pop(key, None)
        stored = self._kept.read_anywhere(list(left))
        look.rows_view = len(suspects) - len(left) + len(stored)
        for key, suspect in left.items():
            if key in stored:
                look.add(Differing(suspect.key, key, None, stored[key]))
        return look

    def postgres_rows(self, suspects: Collection[Differing]) -> dict[str, bytes]:
        """Postgres' rows under those keys, by the key."""
        query, keys = self._sql(suspects), [suspect.key for suspect in suspects]
        return {name: text.encode() for text, name, *_ in self._conn.execute(query.encode(), [keys])}

    def is_equal(self, one: bytes | None, other: bytes | None) -> bool:
        if one == other or one is None or other is None:
            return one == other
        left, right = row_values(one), row_values(other)
        for name in self._floats:
            if _is_close(left.get(name), right.get(name)):
                right[name] = left.get(name)
        return bool(left == right)

    def _compared(self, rows: list[tuple[Any, ...]], look: Look) -> list[bytes]:
        keys = encoded(self._kept.store, [row[2:] for row in rows])
        stored = self._kept.read(keys)
        look.rows_postgres += len(rows)
        for key, (text, name, *_) in zip(keys, rows, strict=True):
            row, held = text.encode(), stored.get(key)
            if not self.is_equal(row, held):
                look.add(Differing(name, key, row, held))
        return keys

    def _postgres(self, query: str, keys: list[str] | None = None) -> Iterator[list[tuple[Any, ...]]]:
        with self._conn.cursor(name="headwater_verify") as cursor:
            cursor.execute(query.encode(), None if keys is None else [keys])
            while rows := cursor.fetchmany(CHUNK_ROWS):
                yield rows

    def _sql(self, chosen: Collection[Differing] = ()) -> str:
        columns = [f"{_ALIAS}.{_quoted(name)}" for name in self._kept.store.key]
        key = f"(SELECT row_to_json(k)::text FROM (SELECT {', '.join(columns)}) k)"
        texts = ", ".join(f"{column}::text" for column in columns)
        inner = self._kept.group.plans[self._kept.view].view.sql
        query = f"SELECT row_to_json({_ALIAS})::text, {key}, {texts} FROM (\n{inner}\n) {_ALIAS}"
        if not chosen:
            return query
        near = "".join(f" AND {each}" for each in self._near(columns, chosen))
        return f"{query}\n WHERE TRUE{near}".replace("%", "%%") + f" AND {key} = ANY(%s)"

    def _near(self, columns: list[str], chosen: Collection[Differing]) -> Iterator[str]:
        """Column by column, as Postgres can look it up in an index: the key as a whole it could only compare with every
        row."""
        keys = [json.loads(each.key, parse_float=str, parse_int=str) for each in chosen]
        for name, column in zip(self._kept.store.key, columns, strict=True):
            values = {_text(key[name]) for key in keys if not isinstance(key[name], dict | list)}
            if values and not any(isinstance(key[name], dict | list) for key in keys):
                texts = sorted(value for value in values if value is not None)
                listed = sql.Literal(_literal(texts)).as_string(self._conn)
                yield f"({column} = ANY({listed}){f' OR {column} IS NULL' if None in values else ''})"


def chosen(store: ViewStore, keys: Sequence[bytes]) -> list[Differing]:
    """Keys as the view's topic writes them, to be looked at. One that the store cannot read is left out."""
    found = []
    for key in dict.fromkeys(keys):
        values = msgspec.json.decode(key, type=dict[str, msgspec.Raw])
        with suppress(ConfigurationError):
            [entry] = encoded(store, [[_typed_text(each, values[each.name]) for each in store.key_fields]])
            found.append(Differing(key.decode(), entry, None, None))
    return found


def _typed_text(of: Field, value: msgspec.Raw) -> str | None:
    """A key's value as Postgres reads it: of json its own text, of an array a literal."""
    plain = json.loads(bytes(value), parse_float=str, parse_int=str)
    if plain is not None and of.type.family is Family.JSON:
        return bytes(value).decode()
    if isinstance(plain, list) and of.type.family is Family.ARRAY:
        return _literal(plain)
    return _text(plain)


def _literal(values: Sequence[Any]) -> str:
    """Of an array of whatever type."""
    texts = (_literal(each) if isinstance(each, list) else _element(_text(each)) for each in values)
    return "{" + ",".join(texts) + "}"


def _element(text: str | None) -> str:
    if text is None:
        return "NULL"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _text(value: object) -> str | None:
    """A JSON value as Postgres reads it."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)


def _is_close(one: object, other: object) -> bool:
    if not isinstance(one, Number) or not isinstance(other, Number):
        return False
    return math.isclose(one.value, other.value, rel_tol=FLOAT_TOLERANCE)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
