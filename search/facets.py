"""Facets: the most frequent values of a field among what a query finds, counted by Elasticsearch. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from search.answers import Bucket, Facet
from search.compile import Dsl, compile
from search.encoding import decoder, unsortable
from search.errors import QueryRefused
from search.index import IndexDefinition, Target
from search.json_paths import escaped
from search.kinds import Kind
from search.query import Range
from search.query_check import clause

FACETS_MAX: Final = 20
VALUES_MAX: Final = 200
RANGES_MAX: Final = 50
_SIGN: Final = re.compile(r"([^A-Za-z0-9])")
_SHARD_SIZE: Final = 2_000
"""Values that each shard reports: counts are exact for all fields with fewer."""


def check(facets: Sequence[Facet], definition: IndexDefinition) -> None:
    """Raises QueryRefused."""
    if len(facets) > FACETS_MAX:
        raise QueryRefused(f"more than {FACETS_MAX} facets", hint="ask less at once")
    for facet in facets:
        target = definition.target(facet.field)
        if target.column.kind is Kind.JSON and not target.path:
            raise QueryRefused(f"{facet.field} is a json document", hint=f"name a path, such as {facet.field}.name")
        if not 1 <= facet.size <= VALUES_MAX or len(facet.ranges) > RANGES_MAX:
            raise QueryRefused(f"a facet has 1 to {VALUES_MAX} values, or at most {RANGES_MAX} ranges")


def aggregations(facets: Sequence[Facet], definition: IndexDefinition) -> dict[str, Dsl]:
    return {f"f{number}": _aggregation(facet, definition) for number, facet in enumerate(facets)}


def _aggregation(facet: Facet, definition: IndexDefinition) -> Dsl:
    if facet.ranges:
        ranges = (_checked(each, facet, definition) for each in facet.ranges)
        return {"filters": {"filters": [compile(each, definition) for each in ranges]}}
    target = definition.target(facet.field)
    terms: Dsl = {"field": target.column.field, "size": facet.size, "shard_size": _SHARD_SIZE}
    if target.path:
        terms["include"] = _SIGN.sub(r"\\\1", escaped(target.path)) + "=.*"
    return {"terms": terms}


def _checked(each: Range, facet: Facet, definition: IndexDefinition) -> Range:
    made = clause(each, definition)
    if not isinstance(made, Range) or made.field != facet.field:
        raise QueryRefused(f"a range of the facet {facet.field} is of another field")
    return made


def buckets(
    facets: Sequence[Facet], answer: Mapping[str, Any], definition: IndexDefinition
) -> dict[str, tuple[Bucket, ...]]:
    """By field, in the order of the answer: the most frequent first, or as the ranges were given."""
    return {
        facet.field: _buckets(facet, answer[f"f{number}"]["buckets"], definition.target(facet.field))
        for number, facet in enumerate(facets)
    }


def _buckets(facet: Facet, found: Any, target: Target) -> tuple[Bucket, ...]:
    if facet.ranges:
        return tuple(Bucket(each, part["doc_count"]) for each, part in zip(facet.ranges, found, strict=True))
    decode = _leaf if target.path else decoder(target.column.kind, target.column.scale)
    return tuple(Bucket(decode(part["key"]), part["doc_count"]) for part in found)


def _leaf(token: str) -> Any:
    """The value of a json document's token."""
    sort, form = token.partition("=")[2][:1], token.partition("=")[2][1:]
    if sort == "b":
        return form == "true"
    return form.partition("\x00")[0] if sort == "s" else unsortable(form)
