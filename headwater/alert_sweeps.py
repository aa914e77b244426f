"""Sweeps over the views that have alerts: what the command line and the service share. What they find is noted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec
import psycopg

from alerts import store, troubles
from alerts.saved_search import SavedSearch
from alerts.sink import Lacks, lacking
from alerts.sweep import CHANGES_MAX, Sweep, Swept
from cdc.errors import ConfigurationError, HeadwaterError, ViewError
from cdc.postgres import connect, explained
from headwater.api.shapes import Shapes
from headwater.deployment import Deployment
from headwater.known_views import ALERTS
from headwater.sweep_file import Difference, SweepFile, SweptView
from search.index import IndexDefinition, define
from views.maintain.publisher import view_topic
from views.maintain.registry import Registry, ViewState
from views.sinks.following import ViewTopic
from views.sinks.sink import ViewShape

SEARCHES_AT_ONCE: Final = 5_000
KEEP_S: Final = 90 * 86_400.0


class Sweeps(NamedTuple):
    """Of several views: what was found, and of those that could not be swept, why."""

    found: list[Swept]
    failed: dict[str, HeadwaterError]


def sweep(deployment: Deployment, views: Sequence[str] = (), changes_max: int = CHANGES_MAX) -> Sweeps:
    """These views, or all that are live and have alerts. One that cannot be swept keeps no other waiting."""
    registry = Registry(deployment.settings.views_state)
    shapes, file = Shapes(registry, deployment.source), SweepFile(registry.folder)
    live = [name for name, status in registry.state().views.items() if status.state is ViewState.LIVE]
    known = sorted(name for name in live if shapes.has(name, ALERTS))
    for view in views:
        if view not in known:
            raise ConfigurationError(
                f"view {view} has no alerts",
                detail=f"those that have: {', '.join(known) or 'none'}",
                hint="headwater views",
            )
    file.keep_only({view for view in registry.wanted().views if view in known or view not in live})
    return each_swept(views or known, lambda view: _swept(deployment, shapes.shape(view), file, changes_max), file)


def each_swept(views: Sequence[str], swept: Callable[[str], Swept], file: SweepFile) -> Sweeps:
    found, failed = list[Swept](), dict[str, HeadwaterError]()
    for view in views:
        try:
            found.append(swept(view))
        except HeadwaterError as error:
            failed[view] = error
        except Exception as error:  # of a view that nobody has thought of: the others are looked at all the same
            failed[view] = ViewError(f"alerts of {view} could not be swept", detail=f"{type(error).__name__}: {error}")
        if view in failed:
            file.note(view, partial(msgspec.structs.replace, failed=failed[view].summary))
    return Sweeps(found, failed)


def _swept(deployment: Deployment, shape: ViewShape, file: SweepFile, changes_max: int) -> Swept:
    last, wanted = file.read().get(shape.view, SweptView()), deployment.settings.alerts
    topic = ViewTopic(deployment.kafka, view_topic(deployment.source, shape.view))
    places = deployment.postgres, deployment.kafka, deployment.source, topic, shape
    found = Sweep(*places, wanted.window_s, wanted.keep_days * 86_400)(changes_max, after_search=last.next_search)
    with connect(deployment.postgres) as conn, explained(conn):
        broken, lacks = broken_of(conn, last, define(shape)), lacking(conn, shape.view)
    now_us = time.time_ns() // 1000
    keep_s = wanted.keep_days * 86_400
    file.note(shape.view, lambda held: lacking_noted(noted(broken_noted(held, broken), found, now_us, keep_s), lacks))
    return found


def noted(last: SweptView, found: Swept, now_us: int, keep_s: float = KEEP_S) -> SweptView:
    new = (
        Difference(kind, told.subscription_id, told.event, told.version, now_us)
        for kind, those in (("missed", found.missed), ("wrong", found.wrong))
        for told in those
    )
    swept = msgspec.structs.replace(last, at_us=now_us, failed="", next_search=found.next_search)
    return swept.found(new, now_us - int(keep_s * 1e6))


class Broken(NamedTuple):
    shape: str
    searches: tuple[int, ...]
    example: str


def broken_of(conn: psycopg.Connection, last: SweptView, definition: IndexDefinition) -> Broken:
    """The searches that do not fit the view: all are looked through when it has changed; else those that did not
    fit then, because a search fits when it is saved."""
    shape = blake2b(msgspec.json.encode(definition.meta(), order="sorted"), digest_size=8).hexdigest()
    is_same = shape == last.shape
    searches = store.by_ids(conn, last.broken).values() if is_same else _all_of(conn, definition.view)
    now = datetime.now(UTC)
    wanted = (each for each in searches if each.silence(now) is None)
    found = {each.id: why for each in wanted if (why := troubles.misfit(each.wish, definition))}
    example = next((f"{id_}: {why}" for id_, why in found.items()), "")
    return Broken(shape, tuple(sorted(found)), example)


def broken_noted(last: SweptView, broken: Broken) -> SweptView:
    shape, searches, example = broken
    return msgspec.structs.replace(last, shape=shape, broken=searches, broken_example=example)


def lacking_noted(last: SweptView, lacks: Lacks | None) -> SweptView:
    """With what the alerts lack because they stood still."""
    from_us, until_us = (0, 0) if lacks is None else (lacks.from_us, lacks.until_us)
    return msgspec.structs.replace(last, lacks_from_us=from_us, lacks_until_us=until_us)


def _all_of(conn: psycopg.Connection, view: str) -> Iterator[SavedSearch]:
    after = 0
    while found := store.of_view(conn, view, after, SEARCHES_AT_ONCE):
        yield from found
        after = found[-1].id
