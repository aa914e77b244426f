"""The types that a cast names: Postgres' words and their synonyms, and the enums that captured columns have."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from sqlglot import exp

from cdc.catalog import Catalog
from views import sqltypes as t
from views.refusals import Reason, nearest, refusal
from views.sqltypes import Family, SqlType

_SYNONYMS: Final = {
    "INT": "integer",
    "INTEGER": "integer",
    "SMALLINT": "smallint",
    "BIGINT": "bigint",
    "DECIMAL": "numeric",
    "NUMERIC": "numeric",
    "REAL": "real",
    "FLOAT": "double precision",
    "DOUBLE PRECISION": "double precision",
    "BOOLEAN": "boolean",
    "TEXT": "text",
    "VARCHAR": "character varying",
    "CHAR": "character",
    "DATE": "date",
    "TIMESTAMP": "timestamp without time zone",
    "TIMESTAMPTZ": "timestamp with time zone",
    "TIME": "time without time zone",
    "INTERVAL": "interval",
    "UUID": "uuid",
    "JSON": "json",
    "JSONB": "jsonb",
    "BYTEA": "bytea",
}
_WITHOUT_MODIFIER: Final = ("timestamp without time zone", "timestamp with time zone", "time without time zone")


@dataclass(frozen=True)
class TypeNames:
    catalog: Catalog

    @cached_property
    def _enums(self) -> dict[str, SqlType]:
        found: dict[str, SqlType] = {}
        for table in self.catalog.tables.values():
            for column in table.columns:
                if column.type.spec.kind == "e" and not column.type.spec.dims:
                    found[column.type.spec.base.removeprefix("public.")] = t.of_column(column.type)
        return found

    def of(self, written: exp.DataType) -> SqlType:
        """Raises ViewRefused for a type that views do not compute with."""
        if written.this == exp.DType.ARRAY and len(written.expressions) == 1:
            return t.array_of(self.of(written.expressions[0]))
        text = written.sql("postgres")
        word, _, modifier = text.partition("(")
        name = _SYNONYMS.get(word.strip().upper())
        if name is None:
            return self._enum(text, written)
        if name == "character" and not modifier:
            modifier = "1)"
        if modifier and name in _WITHOUT_MODIFIER:
            raise refusal(
                Reason.UNSUPPORTED, f"{text}: digits of seconds", written, hint=f"::{word.lower()}, or date_trunc"
            )
        full = f"{name}({modifier.replace(' ', '')}" if modifier else name
        if name == "numeric" and modifier and "," not in modifier:
            full = f"numeric({modifier[:-1]},0)"
        try:
            return t.named(full)
        except (KeyError, ValueError):
            raise refusal(
                Reason.TYPE_NOT_CARRIED, f"{text} is not computed with", written, hint="numeric(38,10) or narrower"
            ) from None

    def _enum(self, text: str, written: exp.DataType) -> SqlType:
        name = text.strip('"').removeprefix("public.")
        found = self._enums.get(name) or self._enums.get(name.lower())
        if found is None:
            known = [*(word.lower() for word in _SYNONYMS), *self._enums]
            raise refusal(Reason.TYPE_NOT_CARRIED, f"no cast to {text}", written, hint=nearest(text.lower(), known))
        return found

    def check_carried(self, type_: SqlType, at: exp.Expression) -> None:
        if type_.family is Family.UNKNOWN:
            raise refusal(Reason.TYPE_MISMATCH, "the type is not known", at, hint="cast it, such as NULL::text")
