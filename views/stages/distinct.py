"""Each row once: a group of all columns, of which only the number of rows is kept."""

from __future__ import annotations

from sqlglot import exp

from views.plan import Aggregate, Distinct


def as_aggregate(node: Distinct) -> Aggregate:
    """Of rows that Postgres takes for equal, one."""
    names = node.input.names
    groups = tuple(
        (name, exp.column(exp.to_identifier(of, quoted=True))) for name, of in zip(node.names, names, strict=True)
    )
    return Aggregate(fields=node.fields, input=node.input, groups=groups, aggregates=())
