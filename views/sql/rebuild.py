"""The same node over other inputs, with its fields worked out again. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from views.plan import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    Project,
    SemiJoin,
    TopK,
    UnionAll,
    Window,
)
from views.sql import nodes


def with_inputs(node: Node, inputs: Sequence[Node]) -> Node:
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
        return node
    match node:
        case Filter() | Distinct() | TopK():
            return replace(node, input=inputs[0], fields=inputs[0].fields)
        case Project():
            return nodes.projected(inputs[0], node.columns)
        case Aggregate():
            return nodes.aggregated(inputs[0], node.groups, node.aggregates)
        case Window():
            return nodes.windowed(inputs[0], node.partition, node.columns)
        case Join():
            pairs = zip(node.left_keys, node.right_keys, strict=True)
            return nodes.joined(node.kind, inputs[0], inputs[1], pairs, node.residual)
        case SemiJoin():
            return replace(node, left=inputs[0], right=inputs[1], fields=inputs[0].fields)
        case UnionAll():
            return nodes.united(inputs)
    return node
