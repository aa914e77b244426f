"""What a wish would tell, before it is saved: how many rows match now, and the events of the last days."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from alerts.previewing import count_events, unless_quiet
from alerts.quiet import Stretch
from alerts.saved_search import Wish
from alerts.wish_reading import read_query
from headwater.known_views import Views
from headwater.settings.alerts import AlertsSettings
from search.query import is_relative

BY_WAITING: Final = (
    "the query has instants relative to now: rows that come to match, or stop, as time passes are no news; changes are"
)


@dataclass(frozen=True)
class Previews:
    views: Views
    settings: AlertsSettings
    quiet_since: Callable[[str, datetime], Sequence[Stretch]]
    """The stretches of a view that nobody is told of, those of all views, too."""

    def of(self, wish: Wish, days: int, *, each_alone: bool = False) -> dict[str, Any]:
        """With `each_alone` each event is counted as if it were the only one that is wanted: for who has to choose."""
        days = min(days, self.settings.preview_days_max)
        definition, now = self.views.definition(wish.view), datetime.now(UTC)
        query = read_query(wish.query, definition)
        matching = self.views.count(wish.view, query)
        told: dict[str, Any] = {"view": wish.view, "query": wish.query, "matching": matching, "events": None}
        told["is_too_broad"] = matching is not None and matching > self.settings.hits_max
        told["notes"] = [BY_WAITING] if is_relative(query) else []
        if matching is None:
            told["matching_unknown"] = f"view {wish.view} is not in the search: WITH (sinks = 'search')"
        past = self.views.history(wish.view, now - timedelta(days=days), self.settings.preview_rows_max)
        if past is None:
            return {**told, "events_unknown": f"view {wish.view} has no history: WITH (sinks = 'warehouse')"}
        versions = list(unless_quiet(past.versions, self.quiet_since(wish.view, past.since)))
        alone = [msgspec.structs.replace(wish, events=(event,)) for event in wish.events] if each_alone else [wish]
        events: dict[str, int] = {}
        for each in alone:
            events |= count_events(each, versions, definition, now, self.settings.window_s)
        looked = max((now - past.since) / timedelta(days=1), 1 / 24)
        return {**told, "events": events, "days": round(looked, 2), "per_day": round(sum(events.values()) / looked, 1)}
