"""What keeping a view costs, told from the stages of its plan. Pure.

incremental   every stage works from the change alone: an epoch costs what changed, however large the tables are
by group      some stage computes the groups or partitions that a change touches anew: an epoch costs their rows
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from views.dataflow import Graph
from views.plan import Aggregate, Distinct, Join, Node, SemiJoin, TopK, Window
from views.stages import Stage
from views.stages.recompute import KeyedRecompute

_WORDS: Final[tuple[tuple[type[Node], str], ...]] = (
    (Join, "join"),
    (SemiJoin, "semijoin"),
    (Aggregate, "aggregate"),
    (Distinct, "distinct"),
    (TopK, "top"),
    (Window, "window"),
)


class Tier(StrEnum):
    INCREMENTAL = "incremental"
    BY_GROUP = "by group"


@dataclass(frozen=True)
class Cost:
    tier: Tier
    text: str
    stages: tuple[tuple[str, str], ...]
    """The fingerprint and the word of each: what equal ones of other views are found by."""


def cost_of(root: Node) -> Cost:
    graph = Graph.of({"view": root})
    again = Counter(_word(placed.stage) for placed in graph.stages if isinstance(placed.stage, KeyedRecompute))
    does = _counted(Counter(_word(placed.stage) for placed in graph.stages)) or "filters and columns only"
    return Cost(
        Tier.BY_GROUP if again else Tier.INCREMENTAL,
        f"{does}: computes the touched groups of {_counted(again)} anew"
        if again
        else f"{does}: cost follows the change",
        tuple((placed.name, _word(placed.stage)) for placed in graph.stages),
    )


def shared(costs: Mapping[str, Cost]) -> dict[str, dict[str, list[str]]]:
    """Of views that are kept together: by view, the words of the stages that others have as well, with those others."""
    owners: dict[str, set[str]] = {}
    for name, cost in costs.items():
        for fingerprint, _ in cost.stages:
            owners.setdefault(fingerprint, set()).add(name)
    found: dict[str, dict[str, list[str]]] = {}
    for name, cost in costs.items():
        for fingerprint, word in dict(cost.stages).items():
            for other in sorted(owners[fingerprint] - {name}):
                found.setdefault(name, {}).setdefault(other, []).append(word)
    return found


def shared_text(with_others: Mapping[str, list[str]]) -> str:
    """Such as: 1 join with listing_search."""
    told = []
    for other, words in with_others.items():
        told.append(f"{_counted(Counter(words))} with {other}")
    return "; ".join(told)


def _counted(words: Counter[str]) -> str:
    """Such as: 2 joins, 1 aggregate."""
    return ", ".join(f"{count} {_plural(word, count)}" for word, count in words.items())


def _word(stage: Stage) -> str:
    return next((word for kind, word in _WORDS if isinstance(stage.node, kind)), type(stage.node).__name__.lower())


def _plural(word: str, count: int) -> str:
    return word if count == 1 or word in ("distinct", "top") else f"{word}s"
