"""A view that is applied, as `explain` and the console tell it: its plan, and what is kept on the way to it."""

from __future__ import annotations

from cdc.catalog import Catalog, Table
from cdc.errors import ConfigurationError, ViewError
from headwater.views.kept import Occupied, open_view
from views.definition import parse
from views.maintain.publisher import Frontier
from views.maintain.registry import Registry
from views.refusals import nearest
from views.sql import ViewPlan, plan_view


def planned(registry: Registry, view: str) -> ViewPlan:
    """As it was applied, with its tables as they were then. Raises ConfigurationError for a view that is not there."""
    known = registry.wanted().views.get(view)
    if known is None:
        raise ConfigurationError(
            f"no view {view}", detail=nearest(view, registry.wanted().views), hint="headwater views"
        )
    (definition,) = parse(known.text)
    return plan_view(definition, Catalog.of(Table.parse(row) for row in known.tables))


def arranged(registry: Registry, frontiers: dict[str, Frontier], view: str) -> list[Occupied]:
    """Nothing for a view of which nothing is kept yet: its plan is all there is."""
    try:
        return open_view(registry, frontiers, view).arrangements()
    except ViewError:
        return []
