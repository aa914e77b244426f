"""What the console tells of views, read from where they are kept. Looked at anew every few seconds at most.

Only files of this machine are read while somebody waits; Kafka is asked beside that (known_frontiers.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, cast

from cdc.errors import HeadwaterError
from headwater.deployment import Deployment
from headwater.pages.known_frontiers import KNOWN_S, KnownFrontiers
from headwater.pages.plan_graph import Drawing, draw
from headwater.views.cost import cost_of
from headwater.views.declared import tables_of
from headwater.views.explained import arranged, planned
from headwater.views.kept import Frontiers, Occupied, open_view
from views.explain import explain
from views.maintain.publisher import view_topic
from views.maintain.registry import Registry

T = TypeVar("T")


@dataclass(frozen=True)
class Held:
    rows: int | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class Late:
    """Why rows and sizes may be old."""

    why: str
    since: datetime | None
    """When it was last known which generation serves each view; None: never."""


@dataclass(frozen=True)
class ViewFacts:
    """How a view is made: what does not change until it is applied again."""

    name: str
    text: str
    sql: str
    key: tuple[str, ...]
    is_key_inferred: bool
    sinks: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    tables: tuple[str, ...]
    topic: str
    tier: str
    cost: str
    plan: str
    arrangements: tuple[Occupied, ...]
    drawing: Drawing
    applied_at_s: float


class KeptFacts:
    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self.registry = Registry(deployment.settings.views_state)
        self._frontiers = KnownFrontiers(Frontiers(deployment.kafka, deployment.source).look)
        self._known: dict[Hashable, tuple[float, Any]] = {}

    def late(self) -> Late | None:
        known = self._frontiers.look()
        return Late(known.problem, known.at) if known.problem else None

    def held(self, view: str) -> Held:
        """Nothing for a view that is being built or replaced, or whose state cannot be read now."""

        def look() -> Held:
            try:
                found = open_view(self.registry, self._frontiers.look().frontiers, view).occupied()
            except HeadwaterError:
                return Held()
            return Held(found.rows, found.bytes)

        return self._lately(("held", view), look)

    def view(self, name: str) -> ViewFacts:
        """Raises ConfigurationError for a view that is not there."""
        return self._lately(("view", name), lambda: self._facts(name))

    def _facts(self, name: str) -> ViewFacts:
        plan = planned(self.registry, name)
        cost, known = cost_of(plan.root), self.registry.wanted().views[name]
        arrangements = self._arrangements(name)
        return ViewFacts(
            name,
            known.text.strip(),
            plan.view.sql.strip(),
            plan.key,
            plan.view.key is None,
            plan.view.sinks,
            tuple((field.name, str(field.type)) for field in plan.root.fields),
            tuple(str(table) for table in tables_of(plan.root)),
            view_topic(self._deployment.source, name),
            cost.tier.value,
            cost.text,
            explain(plan.root),
            arrangements,
            draw(plan.root, name, plan.key, arrangements),
            known.applied_at_s,
        )

    def _arrangements(self, name: str) -> tuple[Occupied, ...]:
        try:
            return tuple(arranged(self.registry, self._frontiers.look().frontiers, name))
        except HeadwaterError:  # it is being replaced: the next look tells
            return ()

    def _lately(self, key: Hashable, look: Callable[[], T]) -> T:
        """Two may look at once: nobody waits for the other."""
        at, found = self._known.get(key, (float("-inf"), None))
        if time.monotonic() - at > KNOWN_S:
            found = look()
            self._known[key] = time.monotonic(), found
        return cast(T, found)
