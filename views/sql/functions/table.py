"""Functions of fixed types, a line each: the signature in Postgres, and DuckDB's spelling of it.

Letters change case as in collation C: ASCII only. Each line is compared with Postgres in tests/views/sql/test_duck.py.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from views import sqltypes as t
from views.sql.coercion import can_become, coerced, strict
from views.sql.functions.rule import Arguments, Render, Rule, wrong_arguments
from views.sql.typed import call, type_of
from views.sqltypes import SqlType

_UPPER, _LOWER = string.ascii_uppercase, string.ascii_lowercase
_NEGATIVE_LENGTH: Final = "error('negative substring length not allowed')"
_TYPES: Final = {
    "text": t.TEXT,
    "integer": t.INTEGER,
    "bigint": t.BIGINT,
    "double": t.DOUBLE,
    "boolean": t.BOOLEAN,
    "date": t.DATE,
    "timestamp": t.TIMESTAMP,
    "timestamptz": t.TIMESTAMPTZ,
    "interval": t.INTERVAL,
    "bytea": t.BYTEA,
    "uuid": t.UUID,
}

SIGNATURES: Final = {
    "lower(text) -> text": f"translate({{0}}, '{_UPPER}', '{_LOWER}')",
    "upper(text) -> text": f"translate({{0}}, '{_LOWER}', '{_UPPER}')",
    "length(text) -> integer": "CAST(length({0}) AS INTEGER)",
    "char_length(text) -> integer": "CAST(length({0}) AS INTEGER)",
    "character_length(text) -> integer": "CAST(length({0}) AS INTEGER)",
    "octet_length(text) -> integer": "CAST(strlen({0}) AS INTEGER)",
    "bit_length(text) -> integer": "CAST(8 * strlen({0}) AS INTEGER)",
    "octet_length(bytea) -> integer": "CAST(octet_length({0}) AS INTEGER)",
    "length(bytea) -> integer": "CAST(octet_length({0}) AS INTEGER)",
    "substring(text, integer) -> text": "substring({0}, greatest({1}, 1))",
    "substring(text, integer, integer) -> text": (
        f"CASE WHEN {{2}} < 0 THEN {_NEGATIVE_LENGTH} ELSE substring({{0}}, greatest({{1}}, 1), "
        "greatest(CAST({1} AS BIGINT) + {2} - greatest({1}, 1), 0)) END"
    ),
    "substr(text, integer) -> text": "substring({0}, greatest({1}, 1))",
    "substr(text, integer, integer) -> text": (
        f"CASE WHEN {{2}} < 0 THEN {_NEGATIVE_LENGTH} ELSE substring({{0}}, greatest({{1}}, 1), "
        "greatest(CAST({1} AS BIGINT) + {2} - greatest({1}, 1), 0)) END"
    ),
    "strpos(text, text) -> integer": "CAST(strpos({0}, {1}) AS INTEGER)",
    "replace(text, text, text) -> text": "CASE WHEN {1} = '' THEN {0} ELSE replace({0}, {1}, {2}) END",
    "translate(text, text, text) -> text": "translate({0}, {1}, {2})",
    "reverse(text) -> text": "array_to_string(list_reverse(string_split({0}, '')), '')",
    "repeat(text, integer) -> text": "repeat({0}, greatest({1}, 0))",
    "left(text, integer) -> text": "left({0}, {1})",
    "right(text, integer) -> text": "right({0}, {1})",
    "lpad(text, integer, text) -> text": (
        "CASE WHEN {2} = '' THEN left({0}, greatest({1}, 0)) ELSE lpad({0}, greatest({1}, 0), {2}) END"
    ),
    "rpad(text, integer, text) -> text": (
        "CASE WHEN {2} = '' THEN left({0}, greatest({1}, 0)) ELSE rpad({0}, greatest({1}, 0), {2}) END"
    ),
    "lpad(text, integer) -> text": "lpad({0}, greatest({1}, 0), ' ')",
    "rpad(text, integer) -> text": "rpad({0}, greatest({1}, 0), ' ')",
    "btrim(text) -> text": "trim({0}, ' ')",
    "btrim(text, text) -> text": "trim({0}, {1})",
    "ltrim(text) -> text": "ltrim({0}, ' ')",
    "ltrim(text, text) -> text": "ltrim({0}, {1})",
    "rtrim(text) -> text": "rtrim({0}, ' ')",
    "rtrim(text, text) -> text": "rtrim({0}, {1})",
    "split_part(text, text, integer) -> text": (
        "CASE WHEN {2} = 0 THEN error('field position must not be zero') "
        "WHEN {1} = '' THEN CASE WHEN {2} IN (1, -1) THEN {0} ELSE '' END ELSE split_part({0}, {1}, {2}) END"
    ),
    "starts_with(text, text) -> boolean": "starts_with({0}, {1})",
    "ascii(text) -> integer": "CASE WHEN {0} = '' THEN 0 ELSE CAST(unicode({0}) AS INTEGER) END",
    "md5(text) -> text": "md5({0})",
    "sqrt(double) -> double": (
        "CASE WHEN {0} < 0 THEN error('cannot take square root of a negative number') ELSE sqrt({0}) END"
    ),
    "degrees(double) -> double": "degrees({0})",
    "make_date(integer, integer, integer) -> date": "make_date({0}, {1}, {2})",
    "isfinite(date) -> boolean": "isfinite({0})",
    "isfinite(timestamp) -> boolean": "isfinite({0})",
    "isfinite(timestamptz) -> boolean": "isfinite({0})",
}


@dataclass(frozen=True, slots=True)
class Overload:
    arguments: tuple[SqlType, ...]
    result: SqlType
    duckdb: str
    signature: str


def _parsed() -> dict[str, tuple[Overload, ...]]:
    found: dict[str, tuple[Overload, ...]] = {}
    for signature, duckdb in SIGNATURES.items():
        name, arguments, result = re.fullmatch(r"(\w+)\((.*)\) -> (\w+)", signature).groups()  # type: ignore[union-attr]
        types = tuple(_TYPES[word.strip()] for word in arguments.split(","))
        found[name] = (*found.get(name, ()), Overload(types, _TYPES[result], duckdb, signature))
    return found


OVERLOADS: Final = _parsed()


def _resolved(name: str, arguments: Arguments, at: exp.Expression) -> Overload:
    """The first that takes the arguments as they are, else the first that they can become."""
    types = [type_of(argument) for argument in arguments]
    fitting = [o for o in OVERLOADS[name] if len(o.arguments) == len(types)]
    exact = [o for o in fitting if all(h.family is w.family for h, w in zip(types, o.arguments, strict=True))]
    for overload in (*exact, *fitting):
        if all(can_become(have, want) for have, want in zip(types, overload.arguments, strict=True)):
            return overload
    raise wrong_arguments(name, arguments, at, *(o.signature for o in OVERLOADS[name]))


def _bind(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    overload = _resolved(name, arguments, at)
    taken = [coerced(argument, want) for argument, want in zip(arguments, overload.arguments, strict=True)]
    return call(name, taken, overload.result, nullable=strict(taken))


def _render(node: exp.Anonymous, render: Render) -> str:
    overload = _resolved(node.name, node.expressions, node)
    arguments = [render(argument) for argument in node.expressions]
    spelled = overload.duckdb.format(*arguments)
    if "error(" not in spelled:
        return spelled
    # Of a NULL nothing is asked, so nothing can be wrong with the rest.
    absent = " OR ".join(f"{argument} IS NULL" for argument in arguments)
    return f"CASE WHEN {absent} THEN NULL ELSE {spelled} END"


RULES: Final = dict.fromkeys(OVERLOADS, Rule(_bind, _render))
