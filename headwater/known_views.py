"""What saved searches ask of views: their fields, how many rows match, one row. From any process, only reading."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from typing import Final, Protocol

from alerts.explaining import LastChange
from cdc.errors import ViewError
from headwater.api.shapes import Shapes
from headwater.deployment import Deployment
from headwater.view_history import History, read_history
from headwater.views.kept import Frontiers, KeptView, open_view
from headwater.views.key_text import encoded, named_values, words_of
from headwater.views.past_warehouse import PastVersion, PastWarehouse
from search.engine import SearchEngine
from search.index import IndexDefinition, define
from search.query import MatchAll, Query
from views.maintain.registry import Registry

ALERTS: Final = "alerts"
SEARCH: Final = "search"
WAREHOUSE: Final = "warehouse"
NEWEST_MAX: Final = 100
"""Versions of a row among which its last change is looked for: those after it only tell it again."""


class Views(Protocol):
    def definition(self, view: str) -> IndexDefinition:
        """Raises for a view that is not there, or has no alerts."""

    def count(self, view: str, query: Query) -> int | None:
        """How many rows match now; None when the view is not in the search, unless every row does."""

    def row(self, view: str, key: Sequence[str] | str) -> tuple[bytes, bytes | None]:
        """A key as the view's topic writes it, from what a person typed, and its row."""

    def last_change(self, view: str, key: bytes) -> LastChange | None:
        """When the row became what it is; None when the view is not in the warehouse, or it had no such row."""

    def history(self, view: str, since: datetime, versions_max: int) -> History | None:
        """What its rows were since then; None when the view is not in the warehouse."""


class KnownViews:
    def __init__(self, deployment: Deployment, shapes: Shapes) -> None:
        self._deployment, self._shapes = deployment, shapes
        self._frontiers = Frontiers(deployment.kafka, deployment.source)

    def definition(self, view: str) -> IndexDefinition:
        self._shapes.require(view, ALERTS)
        return define(self._shapes.shape(view))

    def count(self, view: str, query: Query) -> int | None:
        if not self._shapes.has(view, SEARCH):
            return self._rows(view) if isinstance(query, MatchAll) else None
        engine = SearchEngine.open(self._deployment.elasticsearch, self._shapes.shape(view))
        try:
            return engine.count(query)
        finally:
            engine.close()

    def _rows(self, view: str) -> int | None:
        with suppress(ViewError):  # it is not there yet
            return self._kept(view).occupied().rows
        return None

    def row(self, view: str, key: Sequence[str] | str) -> tuple[bytes, bytes | None]:
        kept = self._kept(view)
        values = named_values(kept.store, words_of(kept.store, key) if isinstance(key, str) else key)
        (wanted,) = encoded(kept.store, [[values[name] for name in kept.store.key]])
        return self._shapes.key(view, values), kept.read([wanted]).get(wanted)

    def _kept(self, view: str) -> KeptView:
        return open_view(Registry(self._deployment.settings.views_state), self._frontiers.look(), view)

    def last_change(self, view: str, key: bytes) -> LastChange | None:
        if not self._shapes.has(view, WAREHOUSE):
            return None
        past = PastWarehouse.of(self._deployment.settings.warehouse_folder, self._shapes.shape(view))
        return last_change(past.versions(key, NEWEST_MAX)) if past else None

    def history(self, view: str, since: datetime, versions_max: int) -> History | None:
        if not self._shapes.has(view, WAREHOUSE):
            return None
        folder = self._deployment.settings.warehouse_folder
        return read_history(folder, self._shapes.shape(view), since, versions_max)


def last_change(versions: Sequence[PastVersion]) -> LastChange | None:
    """The first of the newest ones that are alike: a view that is built again tells its rows as they are. None where
    that lies before the many that were looked at."""
    oldest: list[PastVersion | None] = [] if len(versions) >= NEWEST_MAX else [None]
    for older, newer in reversed(list(pairwise([*oldest, *versions]))):
        if newer is not None and (older is None or older.row != newer.row):
            return LastChange(newer.position, newer.committed_at)
    return None
