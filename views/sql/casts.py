"""Casts that are written: which are accepted, and how DuckDB does them as Postgres does.

A text that is not a value of the target is an error when its row is evaluated, as in Postgres. Where Postgres reads
more forms than DuckDB (dates such as "Jan 5", numbers in other bases), those are an error too: never another value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlglot import exp

from views import sqltypes as t
from views.refusals import Reason, refusal
from views.sql.coercion import cast, coerced, digits_and_scale, numeric_result
from views.sql.literals import FALSE_WORDS, TRUE_WORDS
from views.sql.typed import nullable, type_of, typed
from views.sqltypes import NUMERIC_DIGITS_MAX, Family, SqlType

_TO_TEXT_REFUSED: Final = (Family.ARRAY,)
_ACCEPTED: Final = {
    Family.BOOLEAN: (Family.TEXT, Family.INTEGER),
    Family.INTEGER: (Family.INTEGER, Family.NUMERIC, Family.FLOAT, Family.TEXT, Family.BOOLEAN),
    Family.NUMERIC: (Family.INTEGER, Family.NUMERIC, Family.FLOAT, Family.TEXT),
    Family.FLOAT: (Family.INTEGER, Family.NUMERIC, Family.FLOAT, Family.TEXT),
    Family.TEXT: (
        *(Family.TEXT, Family.INTEGER, Family.NUMERIC, Family.FLOAT, Family.BOOLEAN, Family.UUID),
        *(Family.DATE, Family.TIMESTAMP, Family.TIMESTAMPTZ, Family.JSON),
    ),
    Family.DATE: (Family.TEXT, Family.TIMESTAMP, Family.TIMESTAMPTZ),
    Family.TIMESTAMP: (Family.TEXT, Family.DATE, Family.TIME, Family.TIMESTAMPTZ),
    Family.TIMESTAMPTZ: (Family.TEXT, Family.DATE, Family.TIME, Family.TIMESTAMP),
    Family.TIME: (Family.TEXT,),
    Family.INTERVAL: (Family.TEXT,),
    Family.UUID: (Family.TEXT,),
    Family.BYTES: (Family.TEXT,),
    Family.JSON: (Family.TEXT, Family.JSON),
    Family.ENUM: (Family.TEXT,),
}
_OTHERS_TO_TEXT: Final = frozenset({"inet", "cidr", "macaddr", "macaddr8", "bit", "xml", "oid"})
_BOOLEAN_INTEGER: Final = "integer"
_PLAIN_FLOAT: Final = "1000000.0"
"""Below, DuckDB prints floats as Postgres does."""
_LENGTHS: Final = "character varying("


def explicit(expression: exp.Expression, target: SqlType, at: exp.Expression) -> exp.Expression:
    """The cast as written. Raises ViewRefused for one that is not accepted."""
    have = type_of(expression)
    if have.family is Family.UNKNOWN and not isinstance(expression, exp.Null):
        read = coerced(expression, target if target.family is not Family.TEXT else t.TEXT)
        return cast(read, target) if target.postgres.startswith(_LENGTHS) else read
    if have == target:
        return expression
    if isinstance(expression, exp.Null):
        return coerced(expression, target)
    wanted = _numeric_target(have, target, at)
    if not _is_accepted(have, wanted):
        _refuse(have, target, at)
    if wanted.family is Family.TEXT and have.scale_varies:
        refuse_varying(at)
    if have.family is wanted.family is Family.TEXT and not wanted.postgres.startswith(_LENGTHS):
        return cast(expression, wanted) if have.name in ("character", "bpchar") else _renamed(expression, wanted)
    return cast(expression, wanted)


def _renamed(expression: exp.Expression, type_: SqlType) -> exp.Expression:
    return typed(expression.copy(), type_, nullable=nullable(expression))


def _numeric_target(have: SqlType, target: SqlType, at: exp.Expression) -> SqlType:
    """A cast to numeric without a scale keeps the one that the value has."""
    if target.family is not Family.NUMERIC:
        return target
    if target.scale is None and target.postgres == "numeric" and not have.has_no_scale:
        if have.family is Family.NUMERIC:
            return t.without_modifier(have)
        if have.family is Family.INTEGER:
            return numeric_result(*digits_and_scale(have), at)
    if target.postgres != "numeric" and target.scale is None:
        raise refusal(Reason.TYPE_NOT_CARRIED, f"{target} is not computed with", at, hint="a scale from 0 to 38")
    if (target.precision or 0) > NUMERIC_DIGITS_MAX:
        raise refusal(
            Reason.TYPE_NOT_CARRIED,
            f"{target} has more than {NUMERIC_DIGITS_MAX} digits",
            at,
            hint=f"numeric({NUMERIC_DIGITS_MAX},{target.scale}) or fewer",
        )
    return target


def _is_accepted(have: SqlType, want: SqlType) -> bool:
    if have.name == "money":
        return want.family is Family.NUMERIC
    if have.family is Family.OTHER:
        return want.family is Family.TEXT and have.name in _OTHERS_TO_TEXT
    if want.name in ("character", "bpchar", "citext", "name", '"char"'):
        return False
    if Family.BOOLEAN in (have.family, want.family) and Family.INTEGER in (have.family, want.family):
        return _BOOLEAN_INTEGER in (have.name, want.name)
    return want.family in _ACCEPTED.get(have.family, ())


def _refuse(have: SqlType, target: SqlType, at: exp.Expression) -> None:
    hint = "cast to text first: (…)::text" if have.family not in _TO_TEXT_REFUSED else "array_to_string(…, ',')"
    if have.family is Family.JSON:
        hint = "take the text first: document ->> 'field', then cast that"
    raise refusal(Reason.TYPE_MISMATCH, f"no cast from {have} to {target} that views can compute", at, hint=hint)


def refuse_varying(at: exp.Expression) -> None:
    raise refusal(
        Reason.NO_SCALE,
        "this numeric's scale differs from row to row, and so would its text",
        at,
        detail="Postgres keeps the zeros that each value came with",
        hint="cast it first: (…)::numeric(12,2)",
    )


def as_text(expression: exp.Expression, at: exp.Expression) -> exp.Expression:
    """As || and concat take it."""
    return explicit(expression, t.TEXT, at)


def render(sql: str, have: SqlType, want: SqlType) -> str:
    """The cast in DuckDB's words."""
    if want.family is Family.TEXT:
        return _length(text_of(sql, have), want)
    if have.family is Family.TEXT:
        return _from_text(sql, want)
    if want.family is Family.NUMERIC:
        return _to_numeric(sql, have, want)
    if have.family is Family.NUMERIC:
        return _from_numeric(sql, have, want)
    if have.family is Family.TIMESTAMPTZ:
        return (
            render(f"({sql} AT TIME ZONE 'UTC')", t.TIMESTAMP, want)
            if want != t.TIMESTAMP
            else f"({sql} AT TIME ZONE 'UTC')"
        )
    if want.family is Family.TIMESTAMPTZ:
        return f"(CAST({sql} AS TIMESTAMP) AT TIME ZONE 'UTC')"
    if want.family is Family.TIME:
        return f"(epoch_us({sql}) - epoch_us(date_trunc('day', {sql})))"
    if have.family is Family.JSON:
        return sql if want == t.JSON else f"hw_jsonb({sql})"
    return sql if have.duckdb == want.duckdb else f"CAST({sql} AS {want.duckdb})"


def text_of(sql: str, have: SqlType) -> str:
    """A value as Postgres prints it."""
    match have.family:
        case Family.TEXT:
            return f"rtrim({sql}, ' ')" if have.name in ("character", "bpchar") else sql
        case Family.FLOAT:
            bits = 32 if have == t.REAL else 64
            return (
                f"CASE WHEN abs({sql}) < {_PLAIN_FLOAT} THEN regexp_replace(CAST({sql} AS VARCHAR), '\\.0$', '') "
                f"ELSE hw_float(CAST({sql} AS DOUBLE), {bits}) END"
            )
        case Family.BYTES:
            return f"('\\x' || translate(hex({sql}), 'ABCDEF', 'abcdef'))"
        case Family.TIME:
            clock = f"CAST(CAST('00:00:00' AS TIME) + to_microseconds({sql} % 86400000000) AS VARCHAR)"
            return f"CASE WHEN {sql} = 86400000000 THEN '24:00:00' ELSE {clock} END"
        case Family.INTERVAL:
            return f"hw_interval({', '.join(interval_fields(sql))})"
        case Family.OTHER if have.name == "inet":
            mask = f"CASE WHEN contains({sql}, ':') THEN '/128' ELSE '/32' END"
            return f"({sql} || CASE WHEN contains({sql}, '/') THEN '' ELSE {mask} END)"
    return sql if have.duckdb == "VARCHAR" else f"CAST({sql} AS VARCHAR)"


def interval_fields(sql: str) -> tuple[str, str, str]:
    """Months, days and microseconds of one of DuckDB's intervals."""
    hours = f"CAST(date_part('hour', {sql}) AS BIGINT) * 3600000000 + date_part('minute', {sql}) * 60000000"
    return (
        f"CAST(date_part('year', {sql}) * 12 + date_part('month', {sql}) AS INTEGER)",
        f"CAST(date_part('day', {sql}) AS INTEGER)",
        f"CAST({hours} + date_part('microsecond', {sql}) AS BIGINT)",
    )


def _length(sql: str, want: SqlType) -> str:
    return f"left({sql}, {want.postgres.removeprefix(_LENGTHS)[:-1]})" if want.postgres.startswith(_LENGTHS) else sql


_BLANK: Final = "[ \\t\\n\\r\\f\\v]*"
_ZONE: Final = "(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
_CLOCK: Final = f"[ T][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}(\\.[0-9]{{1,6}})?)?{_ZONE}?"
_INSTANT: Final = f"{_BLANK}[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}({_CLOCK})?{_BLANK}"
_ZONE_AT_END: Final = f"(:.*){_ZONE}$"
_PATTERNS: Final = {
    Family.INTEGER: f"{_BLANK}[+-]?[0-9]+{_BLANK}",
    Family.NUMERIC: f"{_BLANK}[+-]?([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([eE][+-]?[0-9]+)?{_BLANK}",
    **dict.fromkeys((Family.DATE, Family.TIMESTAMP, Family.TIMESTAMPTZ), _INSTANT),
    Family.UUID: f"{_BLANK}[0-9a-fA-F]{{8}}(-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}{_BLANK}",
}


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"'{word}'" for word in sorted(words))


def _bare(sql: str) -> str:
    return f"trim({sql}, ' \t\n\r\f\v')"


def _from_text(sql: str, want: SqlType) -> str:
    match want.family:
        case Family.BOOLEAN:
            word = f"translate(trim({sql}, ' \t\n\r'), 'TRUEYSONFALI', 'trueysonfali')"
            return (
                f"CASE WHEN {sql} IS NULL THEN NULL WHEN {word} IN ({_listed(TRUE_WORDS)}) THEN true "
                f"WHEN {word} IN ({_listed(FALSE_WORDS)}) THEN false "
                f"ELSE error('invalid input syntax for type boolean: ' || {sql}) END"
            )
        case Family.JSON:
            return f"hw_json({sql})" if want == t.JSON else f"hw_jsonb({sql})"
        case Family.FLOAT:
            return f"CAST({sql} AS {want.duckdb})"
        case Family.NUMERIC if want.scale is None:
            return f"hw_numeric({sql})"
        case Family.UUID:
            value = f"CAST(CAST({_bare(sql)} AS UUID) AS VARCHAR)"
        case Family.DATE | Family.TIMESTAMP:
            # The zone is read over, as Postgres does.
            value = f"CAST(CAST(regexp_replace({_bare(sql)}, '{_ZONE_AT_END}', '\\1') AS TIMESTAMP) AS {want.duckdb})"
        case _:
            value = f"CAST({_bare(sql)} AS {want.duckdb})"
    pattern = _PATTERNS[want.family]
    failed = f"error('invalid input syntax for type {want.name}: ' || {sql})"
    return (
        f"CASE WHEN {sql} IS NULL THEN NULL WHEN regexp_full_match({sql}, '{pattern}') THEN {value} ELSE {failed} END"
    )


def _to_numeric(sql: str, have: SqlType, want: SqlType) -> str:
    if have.family is Family.FLOAT:
        digits = 6 if have == t.REAL else 15
        plain = f"format('{{:.{digits}g}}', {sql})"
        text = f"CASE WHEN {sql} IS NULL THEN NULL ELSE hw_numeric({plain}) END"
        return f"CAST({text} AS {want.duckdb})" if want.scale is not None else text
    if want.scale is None:
        return f"CAST({sql} AS VARCHAR)"
    return f"CAST({sql} AS {want.duckdb})"


def _from_numeric(sql: str, have: SqlType, want: SqlType) -> str:
    if want.family is Family.FLOAT:
        return f"CAST(CAST({sql} AS VARCHAR) AS {want.duckdb})"
    if have.scale is None:
        return f"CAST(CAST({sql} AS DECIMAL({NUMERIC_DIGITS_MAX},0)) AS {want.duckdb})"
    return f"CAST({sql} AS {want.duckdb})"
