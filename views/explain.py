"""A plan as text: a node a line, inputs indented under it. What `headwater explain` prints, and what tests compare."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from sqlglot import exp

from views.plan import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Named,
    Node,
    Project,
    Scan,
    SemiJoin,
    TopK,
    UnionAll,
    Window,
)

_QUOTED: Final = re.compile(r'"([a-z_][\w.]*)"')


def explain(node: Node, *, indent: int = 0) -> str:
    lines = [f"{'  ' * indent}{describe(node)}"]
    lines += [explain(child, indent=indent + 1) for child in node.inputs]
    return "\n".join(lines)


def describe(node: Node) -> str:
    """One line, without the inputs."""
    match node:
        case Scan():
            alias = "" if node.alias == node.table.name else f" as {node.alias}"
            return f"scan {node.table}{alias} ({', '.join(node.columns)})"
        case Filter():
            return f"filter {shown(node.predicate)}"
        case Project():
            return f"project {_named(node.columns)}"
        case Join():
            return f"{node.kind} join{_on(node)}"
        case SemiJoin():
            return f"{node.kind} join{_on(node)}{' null-aware' if node.null_aware else ''}"
        case Aggregate():
            by = f" by {_named(node.groups)}" if node.groups else ""
            return f"aggregate {_named(node.aggregates)}{by}".replace("aggregate  by", "aggregate by")
        case Distinct():
            return "distinct"
        case UnionAll():
            return "union all"
        case TopK():
            per = f" per {_listed(node.partition)}" if node.partition else ""
            skip = f" after {node.offset}" if node.offset else ""
            return f"top {node.limit}{skip}{per} by {_listed(node.order)}"
        case Window():
            per = f" per {_listed(node.partition)}" if node.partition else ""
            return f"window{per} {_named(node.columns)}"
    return type(node).__name__.lower()


def shown(expression: exp.Expression) -> str:
    return _QUOTED.sub(r"\1", expression.sql(dialect="postgres"))


def _on(node: Join | SemiJoin) -> str:
    keys = [f"{shown(a)} = {shown(b)}" for a, b in zip(node.left_keys, node.right_keys, strict=True)]
    residual = f" where {shown(node.residual)}" if node.residual is not None else ""
    return f" on {' and '.join(keys)}{residual}" if keys else f" with each{residual}"


def _named(columns: Iterable[Named]) -> str:
    return ", ".join(name if _is(value, name) else f"{shown(value)} as {name}" for name, value in columns)


def _is(value: exp.Expression, name: str) -> bool:
    return isinstance(value, exp.Column) and value.name == name


def _listed(expressions: Iterable[exp.Expression]) -> str:
    return ", ".join(map(shown, expressions))
