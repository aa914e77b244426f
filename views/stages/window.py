"""Window functions: the partitions that an epoch touches are computed anew."""

from __future__ import annotations

from sqlglot import exp

from views.plan import Window
from views.stages.recompute import PLACE, SIDE, SIGN, KeyedRecompute, Statement
from views.stages.scope import Scope, key_types, typed
from views.stages.stage import Keyed
from views.zset import WEIGHT


def recompute(node: Window) -> KeyedRecompute:
    scope = Scope.of(node.input.fields)
    computed = {name: _within_place(scope, expression) for name, expression in node.columns}
    columns = typed(node.fields, [computed.get(name) or f'"{scope.names[name]}"' for name in node.names])
    types = key_types(node.partition, node.input.fields)
    keyed = Keyed(node.input.fields, tuple(node.partition), types)
    sql = f"SELECT {', '.join(columns)}, {SIGN} AS {WEIGHT} FROM i0"
    return KeyedRecompute(node, (keyed,), Statement(sql))


def _within_place(scope: Scope, expression: exp.Expression) -> str:
    """Partitioned by key and side instead: the key says what Postgres takes for equal."""
    partitioned = expression.copy()
    for window in partitioned.find_all(exp.Window):
        window.set("partition_by", [exp.column(PLACE), exp.column(SIDE)])
    return scope.sql(partitioned)
