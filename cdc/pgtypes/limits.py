"""What Debezium does not carry faithfully, found by trial on 3.7: preflight refuses it, so nothing is wrong unseen.

By type, for all their values:
- time with time zone loses its zone and 24:00; bit varying loses its length; int2vector and oidvector arrive empty;
- polygon arrives with its first point added at the end, unless it is there: which of the two it was is lost;
- arrays of money, name, xml, bit varying, intervals and points are left out of the event; those of bit and of the other
  shapes fail the connector; arrays of time lose their microseconds, those of time with time zone their zone; arrays of
  multiranges, composites, domains, ltree, tsvector, pg_lsn and all else that Debezium does not know come in forms
  that decoding does not know.

By type, unless the table has REPLICA IDENTITY FULL (Debezium then takes the value from the old row): an update that
leaves a TOASTed value alone fails the connector for paths, bit strings, domains over arrays, and the arrays that are
not in `_SIGHTED_ARRAYS`. Other shapes are too small to be TOASTed.

By value, which no look at the schema finds:
- arrays of several dimensions: numbers become NULLs in one dimension; text is recognised and refused;
- NULL in an array of an enum, and NaN in an array of numerics: the connector fails;
- infinite intervals arrive as 0; those over 2³¹ hours fail the connector;
- dates before 1582-10-15 in snapshots and arrays: Java's calendar moves them, and drops BC.

Anywhere in the database, captured or not: a domain over an enum, and an enum without labels, stop the connector at its
start; `BREAKING_TYPES` finds them.
"""

from __future__ import annotations

from typing import Final

from cdc.pgtypes.types import COMPOSITE, ENUM, MULTIRANGE, RANGE, PgType, TypeSpec, type_name

BREAKING_TYPES: Final = """
    select format_type(t.oid, null) from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace
    where t.typcategory = 'E' and n.nspname <> 'pg_toast'
        and not exists (select from pg_catalog.pg_enum e where e.enumtypid = t.oid)
        and t.typtype in ('d', 'e')
    order by 1
"""
"""Types whose mere presence stops Debezium at its start."""

_UNFAITHFUL: Final = {
    "time with time zone": "its zone and 24:00 do not come through",
    "bit varying": "its length does not come through",
    "int2vector": "it arrives empty",
    "oidvector": "it arrives empty",
    "polygon": "whether its last point repeats the first does not come through",
}
_UNTRIED: Final = frozenset({"geometry", "geography", "vector", "halfvec", "sparsevec", "isbn"})
"""Debezium has a form of its own for these, that decoding does not know."""

_CARRIED_ARRAYS: Final = frozenset(
    {
        *("smallint", "integer", "bigint", "oid", "numeric", "real", "double precision", "boolean"),
        *("text", "character varying", "character", "bpchar", "citext", "bytea", "uuid", "json", "jsonb", "hstore"),
        *("inet", "cidr", "macaddr", "macaddr8"),
        *("date", "timestamp without time zone", "timestamp with time zone"),
        *("int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"),
    }
)
_SIGHTED_ARRAYS: Final = frozenset(
    {"text", "character varying", "character", "bpchar", "json", "jsonb", "bytea", "integer", "bigint", "date", "uuid"}
)
"""Arrays for which Debezium has a placeholder when a large value did not change."""
_BLIND: Final = frozenset({"bit", "path"})
"""Single values for which it has none."""


def unsupported_reason(type_: PgType | TypeSpec | str) -> str | None:
    """Why a column of this type cannot be captured, in a few words; None where it can.

    From a bare format_type text only what the text shows is known: give the catalog's type to have domains, enums and
    composites looked through.
    """
    spec = _spec(type_)
    if spec.name in _UNTRIED:
        return "decoding does not know Debezium's form of it"
    if spec.name in _UNFAITHFUL:
        return _UNFAITHFUL[spec.name]
    if spec.dims == 0:
        return None
    if spec.dims > 1:
        return "arrays of several dimensions do not come through"
    if _of_domain(spec):
        return "arrays of domains are not decoded"
    if spec.kind in (COMPOSITE, MULTIRANGE, RANGE) and spec.name not in _CARRIED_ARRAYS:
        return "arrays of this type are not decoded, or do not come through"
    if spec.kind == ENUM or spec.name in _CARRIED_ARRAYS or _is_user_type(type_, spec):
        return None
    return "arrays of this type are not decoded, or do not come through"


def full_identity_reason(type_: PgType | TypeSpec | str) -> str | None:
    """Why the table of such a column needs REPLICA IDENTITY FULL; None where it does not."""
    spec = _spec(type_)
    sighted = spec.name in _SIGHTED_ARRAYS and spec.type.endswith("[]") if spec.dims else spec.name not in _BLIND
    return None if sighted else "an update that leaves a large value alone would stop the connector"


def _spec(type_: PgType | TypeSpec | str) -> TypeSpec:
    if isinstance(type_, PgType):
        return type_.spec
    if isinstance(type_, TypeSpec):
        return type_
    base = type_.replace("[]", "")
    return TypeSpec(type_, base, dims=type_.count("[]"))


def _of_domain(spec: TypeSpec) -> bool:
    """Arrays of domains and domains over arrays have the same base and dims; only the first ends in brackets."""
    return spec.type.endswith("[]") and type_name(spec.type.removesuffix("[]")) != spec.name


def _is_user_type(type_: PgType | TypeSpec | str, spec: TypeSpec) -> bool:
    """A bare text with a schema in it may be an enum, of which arrays are carried."""
    return isinstance(type_, str) and "." in spec.base
