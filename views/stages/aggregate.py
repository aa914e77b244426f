"""Groups, recomputed: any aggregate over all rows of the groups that an epoch touches. accumulate.py does counts, exact
sums and extremes from the change alone."""

from __future__ import annotations

from views.plan import Aggregate
from views.stages.recompute import PLACE, SIDE, SIGN, KeyedRecompute, Statement
from views.stages.scope import Scope, key_types, typed
from views.stages.stage import Keyed
from views.zset import WEIGHT


def keyed_input(node: Aggregate) -> Keyed:
    expressions = tuple(expression for _, expression in node.groups)
    return Keyed(node.input.fields, expressions, key_types(expressions, node.input.fields))


def recompute(node: Aggregate) -> KeyedRecompute:
    scope = Scope.of(node.input.fields)
    groups = [f"first({scope.sql(expression)})" for _, expression in node.groups]
    aggregates = [scope.sql(expression) for _, expression in node.aggregates]
    columns = ", ".join(typed(node.fields, [*groups, *aggregates]))
    if node.groups:
        sql = f"SELECT {columns}, {SIGN} AS {WEIGHT} FROM i0 GROUP BY {PLACE}, {SIDE}"
        return KeyedRecompute(node, (keyed_input(node),), Statement(sql))
    new = f"SELECT {columns}, 1 AS {WEIGHT} FROM i0 WHERE {SIDE}"
    old = f"SELECT {columns}, -1 AS {WEIGHT} FROM i0 WHERE NOT {SIDE}"
    statement = Statement(f"{old} UNION ALL {new}", first_sql=new)
    return KeyedRecompute(node, (keyed_input(node),), statement, speaks_first=True)
