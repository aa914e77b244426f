"""A view's key as people type it, and as Postgres prints it: text to the values that the store is asked by. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

import pyarrow as pa

from cdc.errors import ConfigurationError
from cdc.pgtypes import PgType, TypeSpec, pg_type
from views.plan import Field
from views.sqltypes import Family, SqlType
from views.store import ViewStore

NULL = "null"


def words_of(store: ViewStore, text: str) -> list[str]:
    """A key in one text: commas divide the columns, and in a key of one column they are its own."""
    is_value = len(store.key) == 1 and not text.startswith(f"{store.key[0]}=")
    return [text] if is_value else text.split(",")


def named_values(store: ViewStore, words: Sequence[str]) -> dict[str, str | None]:
    """`id=5 line=2`, or the values alone in the key's order. `id=null` is NULL."""
    names = store.key
    pairs = [word.partition("=") for word in words]
    if words and all(sign and name in names for name, sign, _ in pairs):
        found = {name: None if text.lower() == NULL else text for name, _, text in pairs}
        if len(found) == len(words) == len(names):
            return found
    elif len(words) == len(names):
        return dict(zip(names, words, strict=True))
    raise ConfigurationError(
        f"not a key of {store.view}: {' '.join(words) or 'nothing'}",
        detail=f"the key is ({', '.join(f'{field.name} {field.type}' for field in store.key_fields)})",
        hint=f"headwater show {store.view} {' '.join(f'{name}=…' for name in names)}",
    )


def encoded(store: ViewStore, rows: Sequence[Sequence[str | None]]) -> list[bytes]:
    """The keys of many rows, given as text in the key's order."""
    return store.codec.encode(columns_of(store, rows).columns, len(rows))


def columns_of(store: ViewStore, rows: Sequence[Sequence[str | None]]) -> pa.Table:
    """The same, typed: a column for each of the key's."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(store.key)
    arrays = [typed_column(store.view, field, texts) for field, texts in zip(store.key_fields, columns, strict=True)]
    return pa.Table.from_arrays(arrays, names=list(store.key))


def typed_column(view: str, field: Field, texts: Sequence[str | None]) -> pa.Array:
    """Values of one column. Raises ConfigurationError for a text that is none of its type."""
    try:
        return pa.array([None if text is None else _value(field.type, text) for text in texts], field.type.arrow)
    except (ValueError, TypeError, InvalidOperation, pa.ArrowException) as error:
        raise ConfigurationError(
            f"the value of {field.name} is not of type {field.type}",
            detail=str(error),
            hint=f"headwater explain {view}",
        ) from error


def _value(kind: SqlType, text: str) -> object:
    if pa.types.is_decimal(kind.arrow):
        return Decimal(text)
    reads = _reader(kind)
    return reads.to_arrow(reads.from_text(text))


def _reader(kind: SqlType) -> PgType:
    if kind.family is Family.ARRAY:
        return pg_type(TypeSpec(kind.postgres, kind.postgres.removesuffix("[]"), dims=1))
    return pg_type(TypeSpec(kind.postgres, kind.postgres))
