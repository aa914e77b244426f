"""Parts of a plan that stand in it several times, such as a CTE that is used twice: rewrites leave them equal, so that
one stage keeps them for all."""

from __future__ import annotations

from collections import Counter

from views.plan import Node, Scan


def shared_nodes(root: Node) -> frozenset[Node]:
    """Scans are left out: a mirrored table is shared whatever is read of it."""
    counts: Counter[Node] = Counter()

    def visit(node: Node) -> None:
        if isinstance(node, Scan):
            return
        counts[node] += 1
        if counts[node] == 1:
            for child in node.inputs:
                visit(child)

    visit(root)
    return frozenset(node for node, count in counts.items() if count > 1)
