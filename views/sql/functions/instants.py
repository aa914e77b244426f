"""Dates and times. A timestamptz is an instant; where Postgres would use the session's time zone, views use UTC."""

from __future__ import annotations

from functools import cache
from typing import Final
from zoneinfo import available_timezones

from sqlglot import exp

from views import sqltypes as t
from views.refusals import Reason, refusal
from views.sql.casts import interval_fields
from views.sql.coercion import coerced, strict
from views.sql.functions.rule import Arguments, Render, Rule, constant_text, wrong_arguments
from views.sql.typed import call, type_of
from views.sqltypes import Family, SqlType

_TRUNCATED: Final = (
    *("microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month", "quarter", "year"),
)
_DATE_FIELDS: Final = ("year", "quarter", "month", "week", "day", "dow", "isodow", "doy", "isoyear")
_CLOCK_FIELDS: Final = ("hour", "minute")
_INTERVAL_FIELDS: Final = ("day", "hour", "minute")
_MICROS: Final = "CAST({} AS DECIMAL(20,0)) * CAST('0.000001' AS DECIMAL(7,6))"
_INSTANTS: Final = (Family.TIMESTAMP, Family.TIMESTAMPTZ)


def _date_trunc(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    unit = (constant_text(arguments[0]) or "").lower() if arguments else ""
    if unit not in _TRUNCATED or len(arguments) not in (2, 3):
        raise wrong_arguments(
            name, arguments, at, f"date_trunc(unit, timestamp) with a unit of {', '.join(_TRUNCATED)}"
        )
    value = arguments[1]
    if type_of(value).family is Family.DATE or len(arguments) == 3:
        value = coerced(value, t.TIMESTAMPTZ)
    if type_of(value).family not in _INSTANTS:
        raise wrong_arguments(name, arguments, at, "date_trunc(unit, timestamp)", "date_trunc(unit, timestamptz, zone)")
    taken = [coerced(arguments[0], t.TEXT), value]
    if len(arguments) == 3:
        if unit not in _TRUNCATED[5:]:
            raise wrong_arguments(name, arguments, at, "date_trunc(unit, timestamptz, zone) from day on")
        taken.append(_zone(arguments[2], at))
    return call(name, taken, type_of(value), nullable=strict([value]))


def _zone(argument: exp.Expression, at: exp.Expression) -> exp.Expression:
    zone = constant_text(argument)
    if zone is None or zone not in _zones():
        raise refusal(
            Reason.UNSUPPORTED,
            f"not the name of a time zone: {argument.sql('postgres')}",
            at,
            detail="offsets and abbreviations mean different things to different programs",
            hint="a name such as 'Europe/Berlin', or 'UTC'",
        )
    return coerced(argument, t.TEXT)


@cache
def _zones() -> frozenset[str]:
    return frozenset(zone for zone in available_timezones() if "/" in zone and not zone.startswith("Etc/")) | {"UTC"}


def _timezone(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    if len(arguments) != 2 or type_of(arguments[1]).family not in (*_INSTANTS, Family.DATE):
        raise wrong_arguments(name, arguments, at, "timestamptz AT TIME ZONE zone", "timestamp AT TIME ZONE zone")
    value = arguments[1]
    if type_of(value).family is Family.DATE:
        value = coerced(value, t.TIMESTAMPTZ)
    result = t.TIMESTAMP if type_of(value).family is Family.TIMESTAMPTZ else t.TIMESTAMPTZ
    return call(name, [_zone(arguments[0], at), value], result, nullable=strict([value]))


def _extract(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    """extract gives a numeric, date_part a double."""
    field = (constant_text(arguments[0]) or "").lower() if len(arguments) == 2 else ""
    value = arguments[-1]
    type_ = type_of(value)
    if field not in _fields(type_):
        raise wrong_arguments(name, arguments, at, f"{name}({' | '.join(_fields(type_)) or 'field'} of a date or time)")
    scale = 6 if field in ("epoch", "second") and type_.family is not Family.DATE else 0
    result = t.DOUBLE if name == "date_part" else t.numeric(20 + scale, scale)
    return call(name, [coerced(arguments[0], t.TEXT), value], result)


def _fields(type_: SqlType) -> tuple[str, ...]:
    match type_.family:
        case Family.DATE:
            return (*_DATE_FIELDS, "epoch")
        case Family.TIMESTAMP | Family.TIMESTAMPTZ:
            return (*_DATE_FIELDS, *_CLOCK_FIELDS, "second", "epoch")
        case Family.INTERVAL:
            return (*_INTERVAL_FIELDS, "second", "epoch")
    return ()


def _render_trunc(node: exp.Anonymous, render: Render) -> str:
    unit, value = node.expressions[0].name, render(node.expressions[1])
    if len(node.expressions) == 3:
        zone = render(node.expressions[2])
        return f"(date_trunc('{unit}', {value} AT TIME ZONE {zone}) AT TIME ZONE {zone})"
    if type_of(node).family is Family.TIMESTAMPTZ:
        return f"(date_trunc('{unit}', {value} AT TIME ZONE 'UTC') AT TIME ZONE 'UTC')"
    return f"CAST(date_trunc('{unit}', {value}) AS TIMESTAMP)"


def _render_timezone(node: exp.Anonymous, render: Render) -> str:
    zone, value = map(render, node.expressions)
    return f"({value} AT TIME ZONE {zone})"


def _render_extract(node: exp.Anonymous, render: Render) -> str:
    field, value, type_ = node.expressions[0].name, render(node.expressions[1]), type_of(node.expressions[1])
    if type_.family is Family.TIMESTAMPTZ:
        value = f"({value} AT TIME ZONE 'UTC')"
    if node.name == "date_part" and field == "epoch" and type_.family is Family.INTERVAL:
        months, days, micros = interval_fields(value)
        # In doubles, and in Postgres' order.
        return (
            f"(CAST({micros} AS DOUBLE) / 1000000.0 + CAST(31557600 AS DOUBLE) * ({months} // 12) "
            f"+ CAST(2592000 AS DOUBLE) * ({months} % 12) + CAST(86400 AS DOUBLE) * {days})"
        )
    exact = _exact_field(field, value, type_)
    if node.name == "date_part":
        return f"CAST(CAST({exact} AS VARCHAR) AS DOUBLE)"
    return f"CAST({exact} AS {type_of(node).duckdb})"


def _exact_field(field: str, value: str, type_: SqlType) -> str:
    if type_.family is Family.INTERVAL:
        return _interval_field(field, value)
    if field == "epoch":
        return (
            f"(epoch_us({value}) // 1000000)" if type_.family is Family.DATE else _MICROS.format(f"epoch_us({value})")
        )
    if field == "second":
        return _MICROS.format(f"date_part('microsecond', {value})")
    return f"date_part('{field}', {value})"


def _interval_field(field: str, value: str) -> str:
    months, days, micros = interval_fields(value)
    if field == "epoch":
        # Postgres counts 365.25 days a year, 30 days a month that is left.
        seconds = f"({months} // 12) * 31557600 + ({months} % 12) * 2592000 + CAST({days} AS BIGINT) * 86400"
        return _MICROS.format(f"(CAST({seconds} AS BIGINT) * 1000000 + {micros})")
    if field == "second":
        return _MICROS.format(f"({micros} % 60000000)")
    whole = {"day": days, "hour": f"({micros} // 3600000000)", "minute": f"({micros} // 60000000 % 60)"}
    return whole[field]


RULES: Final = {
    "date_trunc": Rule(_date_trunc, _render_trunc),
    "timezone": Rule(_timezone, _render_timezone),
    "extract": Rule(_extract, _render_extract),
    "date_part": Rule(_extract, _render_extract),
}
