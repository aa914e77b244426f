"""The stateful operators: one file each, one contract (stage.py).

A new operator is a file with a `recompute(node)`, and a line here; a faster stage is chosen where it can do the node.
"""

from __future__ import annotations

from cdc.errors import ViewError
from views.plan import Aggregate, Distinct, Join, Node, SemiJoin, TopK, Window
from views.stages import aggregate, join, semijoin, topk, window
from views.stages.accumulate import AccumulateStage
from views.stages.distinct import as_aggregate
from views.stages.join import JoinStage
from views.stages.notin import NotInStage
from views.stages.semijoin import SemiJoinStage
from views.stages.stage import Keyed, Stage
from views.stages.stateless import Chain
from views.stages.topk import TopKStage

STATEFUL = (Join, SemiJoin, Aggregate, Distinct, TopK, Window)


def stage_for(node: Node) -> Stage:
    """The best stage for a stateful node."""
    match node:
        case Join() if JoinStage.can(node):
            return JoinStage.of(node)
        case SemiJoin() if SemiJoinStage.can(node):
            return SemiJoinStage.of(node)
        case SemiJoin() if NotInStage.can(node):
            return NotInStage.of(node)
        case Aggregate():
            return AccumulateStage.of(node) or recompute_for(node)
        case Distinct():
            return AccumulateStage.of(as_aggregate(node), node) or recompute_for(node)
        case TopK():
            return TopKStage.of(node)
    return recompute_for(node)


def recompute_for(node: Node) -> Stage:
    """The general stage: the one that the others must agree with."""
    match node:
        case Join():
            return join.recompute(node)
        case SemiJoin():
            return semijoin.recompute(node)
        case Aggregate():
            return aggregate.recompute(node)
        case Distinct():
            return aggregate.recompute(as_aggregate(node))
        case TopK():
            return topk.recompute(node)
        case Window():
            return window.recompute(node)
    raise ViewError(
        f"no stage for a {type(node).__name__}", detail="only stateful nodes have one", hint="headwater explain VIEW"
    )


__all__ = ["STATEFUL", "Chain", "Keyed", "Stage", "recompute_for", "stage_for"]
