"""Postgres' SQL as views read it: sqlglot's dialect, with calls of functions left as they were written.

sqlglot maps functions of all dialects to its own nodes, and some of Postgres' functions become the same one (date_part
and extract, which differ in type), or take names that Postgres has not (nvl). What is left alone is checked against
our own list, under the name that Postgres has for it, and at its place in the text. An arrow inside a call is
JSON's, not that of a lambda.
"""

from __future__ import annotations

from typing import ClassVar, Final

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import TokenType

_AGGREGATES: Final = ("COUNT", "SUM", "AVG", "MIN", "MAX", "BOOL_AND", "BOOL_OR", "ARRAY_AGG")
_WINDOW: Final = ("ROW_NUMBER", "RANK", "DENSE_RANK", "LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE")
_UNITS: Final = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
_SYNTAX: Final = ("CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM", "OVERLAY")
"""Those with keywords between their arguments."""

_OPTIONS: Final = ("LANGUAGE",)
"""An option of a view that sqlglot would take for a clause of CREATE FUNCTION."""


class ViewSql(Postgres):
    class Parser(PostgresParser):
        LAMBDAS: ClassVar = {
            token: parse for token, parse in PostgresParser.LAMBDAS.items() if token is not TokenType.ARROW
        }
        PROPERTY_PARSERS: ClassVar = {
            name: parse for name, parse in PostgresParser.PROPERTY_PARSERS.items() if name not in _OPTIONS
        }
        FUNCTIONS: ClassVar = {
            name: build for name, build in PostgresParser.FUNCTIONS.items() if name in _AGGREGATES + _WINDOW
        }
        FUNCTION_PARSERS: ClassVar = {
            name: parse for name, parse in PostgresParser.FUNCTION_PARSERS.items() if name in _SYNTAX
        }

        def _parse_interval(  # type: ignore[override]
            self, require_interval: bool = True, parse_function_unit: bool = True
        ) -> exp.Cast | None:
            """interval '…' is a cast of its whole text: sqlglot keeps only the first part of '1 day 02:30'."""
            index = self._index
            if not self._match(TokenType.INTERVAL) or not self._match(TokenType.STRING):
                self._retreat(index)
                return None
            literal = exp.Literal.string(self._prev.text)
            literal.update_positions(self._prev)
            if self._curr is not None and self._curr.text.upper() in _UNITS:
                literal.set("this", f"{literal.name} {self._curr.text}")
                self._advance()
            return exp.Cast(this=literal, to=exp.DataType.build(exp.DType.INTERVAL))
