"""A projection over a projection is one, unless the inner one is shared or would be computed twice."""

from __future__ import annotations

from collections import Counter

from sqlglot import exp

from views.plan import Node, Project
from views.sql import nodes
from views.sql.context import Context
from views.sql.rebuild import with_inputs
from views.sql.sharing import shared_nodes
from views.sql.typed import substitute


def collapse_projects(root: Node, context: Context) -> Node:
    return _collapsed(root, shared_nodes(root))


def _collapsed(root: Node, shared: frozenset[Node]) -> Node:
    node = with_inputs(root, [_collapsed(child, shared) for child in root.inputs])
    if not isinstance(node, Project):
        return node
    inner = node.input
    if not isinstance(inner, Project) or root.inputs[0] in shared:
        return node
    values = dict(inner.columns)
    uses = Counter(part.name for _, value in node.columns for part in value.find_all(exp.Column))
    if any(count > 1 and not isinstance(values[name], (exp.Column, exp.Literal)) for name, count in uses.items()):
        return node
    return nodes.projected(inner.input, [(name, substitute(value, values)) for name, value in node.columns])
