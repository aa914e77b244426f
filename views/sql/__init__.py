"""The SQL front end: from a view's definition and the captured tables to its plan.

    definition ▶ screen ▶ build ▶ key ▶ each of REWRITES ▶ ViewPlan

`screen` refuses what no view may contain, `build` binds names and types and makes the logical plan clause by clause,
the key is proven, and the rewrites make the plan cheaper without changing its rows. All of it is pure; all of it
refuses with ViewRefused, which carries a reason, the place in the text and what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from cdc.catalog import Catalog
from cdc.errors import ViewRefused
from views.definition import ViewDefinition
from views.plan import Node, Project
from views.refusals import pointed
from views.sql.collapse import collapse_projects
from views.sql.context import Context
from views.sql.nodes import projected
from views.sql.prune import prune_columns
from views.sql.pushdown import push_filters
from views.sql.queries import build_query
from views.sql.rank import first_rows_of_ranks
from views.sql.screen import screen
from views.sql.typed import column
from views.sql.view_key import view_key

Rewrite: TypeAlias = Callable[[Node, Context], Node]

REWRITES: Final[tuple[Rewrite, ...]] = (
    push_filters,
    first_rows_of_ranks,
    collapse_projects,
    prune_columns,
)


@dataclass(frozen=True)
class ViewPlan:
    view: ViewDefinition
    root: Node
    key: tuple[str, ...]


def plan_view(definition: ViewDefinition, catalog: Catalog) -> ViewPlan:
    """Raises ViewRefused."""
    try:
        screen(definition.query)
        context = Context(catalog)
        root = build_query(context, definition.query, {}, None, "").node
        key = view_key(definition, root, catalog)
        for rewrite in REWRITES:
            root = rewrite(root, context)
        return ViewPlan(definition, _projection(root), key)
    except ViewRefused as refusal:
        raise pointed(refusal, definition.text or definition.sql) from None


def _projection(root: Node) -> Node:
    """A plan ends in a projection, so that its columns are computed in one place."""
    return root if isinstance(root, Project) else projected(root, [(f.name, column(f)) for f in root.fields])


__all__ = ["REWRITES", "ViewPlan", "plan_view"]
