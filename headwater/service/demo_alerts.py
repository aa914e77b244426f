"""The demo's saved searches: saved once the views are kept, and what they tell, for the terminal to show."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from alerts.inbox import News
from cdc.errors import HeadwaterError
from headwater.api.shapes import Shapes
from headwater.demo.searches import OWNER, SEARCHES, WAYS
from headwater.saved_searches import SavedSearches
from headwater.service.demo_catching import Catching
from views.maintain.registry import Registry

LOOK_S: Final = 2.0
STOP_S_MAX: Final = 10.0
_NAMED: Final = ("title", "name", "id")


@dataclass
class DemoNews:
    searches: int = 0
    told: int = 0
    last: News | None = None

    @property
    def line(self) -> str:
        if not self.searches:
            return ""
        said = f"alerts: {self.searches} saved searches of {OWNER}, {self.told:,} told"
        return said if self.last is None else f"{said}; last: {headline(self.last)}"


def headline(news: News) -> str:
    """What it is about, in a few words."""
    row: dict[str, Any] = msgspec.json.decode(news.after or news.before or "{}")
    name = next((str(row[column]) for column in _NAMED if row.get(column)), news.key)
    return f"{name} {news.event} “{news.label}”"


@contextmanager
def demo_alerts(catching: Catching, wanted: bool, stop: threading.Event) -> Iterator[DemoNews]:
    """On a thread of its own; nothing without the demo."""
    news = DemoNews()
    if not wanted:
        yield news
        return
    thread = threading.Thread(target=_follow, args=(catching, news, stop), name="demo-alerts", daemon=True)
    thread.start()
    try:
        yield news
    finally:
        stop.set()
        thread.join(STOP_S_MAX)


def _follow(catching: Catching, news: DemoNews, stop: threading.Event) -> None:
    deployment = catching.deployment
    shapes = Shapes(Registry(deployment.settings.views_state), deployment.source)
    searches = SavedSearches.of(deployment, shapes)
    after = 0
    while not stop.is_set():
        try:
            news.searches = news.searches or saved(searches, catching)
            for each in searches.inbox(OWNER, after, 1_000):
                news.last, after = each, each.sequence
            news.told = after
        except HeadwaterError:
            pass  # the views are still being built, or the database is away: the next look tells
        stop.wait(LOOK_S)


def saved(searches: SavedSearches, catching: Catching) -> int:
    """How many there are; those of the demo are saved where there is none yet, and told where the catchers are now."""
    known = {search.wish.label: search for search in searches.listed(OWNER)}
    for wish, way in zip(SEARCHES, WAYS, strict=True):
        target = catching.targets.get(way)
        there = {"channel": way, "target": target} if target else {"channel": "feed", "target": ""}
        found = known.get(wish["label"])
        if found is None:
            searches.create(OWNER, {**wish, **there})
        elif (found.wish.channel, found.wish.target) != (there["channel"], there["target"]):
            searches.update(OWNER, found.id, there)
    return len(searches.listed(OWNER))
