"""Rebuilds and generations, for the command line and the console alike: plan, ask, look.

Everything is asked of the process that keeps the views (views/maintain/orders.py) and read from its book; nothing here
touches a sink.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

from cdc.errors import ConfigurationError, HeadwaterError, ViewError
from cdc.reader import read_range
from cdc.topics import topic_state
from headwater.views.apply import apply_again, nobody, read_anew
from headwater.views.kept import Frontiers, open_view
from headwater.views.place import Place
from views.generation import Generation, GenerationState
from views.maintain.book import Book
from views.maintain.orders import Answer, Order, Orders, Verb
from views.rebuild import Origin, Rebuild, RebuildState, Sizes, Stage, Step, explain
from views.refusals import nearest

ANSWER_S_MAX: Final = 30.0
POLL_S: Final = 0.05
ROWS_PER_S: Final = {"cache": 20_000.0, "search": 5_000.0, "warehouse": 10_000.0}
"""Assumed before a rebuild was measured here."""
LOG_RECORDS_PER_S: Final = 5_000.0
SAMPLE_RECORDS: Final = 200


@dataclass(frozen=True)
class Planned:
    """One sink's rebuild, explained."""

    view: str
    sink: str
    origin: Origin
    sizes: Sizes
    steps: tuple[Step, ...]

    @property
    def takes_s(self) -> float:
        return sum(step.takes_s or 0.0 for step in self.steps)


def sinks_of(place: Place, view: str, wanted: Sequence[str] = ()) -> tuple[str, ...]:
    """The sinks of a view that hold rows; those that are named, if any. Raises ConfigurationError."""
    from headwater.sinks import sink_kinds
    from views.definition import parse

    known = place.registry.wanted().views
    if view not in known:
        raise ConfigurationError(f"no view {view}", detail=nearest(view, known), hint="headwater views")
    kinds = sink_kinds(place.deployment)
    listed = next(each.sinks for each in parse(known[view].text) if each.name == view)
    holding = tuple(name for name in listed if name in kinds and kinds[name].holds_rows)
    for name in wanted:
        if name not in holding:
            raise ConfigurationError(
                f"{view} has no sink {name} that holds rows",
                detail=f"it has {', '.join(holding) or 'none'}",
                hint=f"headwater views {view}",
            )
    if not holding:
        raise ConfigurationError(f"{view} lists no sink that holds rows", hint="WITH (sinks = 'cache, search')")
    return tuple(wanted) or holding


def plan(
    place: Place, view: str, sinks: Sequence[str], origin: Origin = Origin.TOPIC, *, switches: bool = True
) -> tuple[Planned, ...]:
    keep_s = float(place.deployment.settings.rebuild.keep_standby_s)
    found = []
    for sink in sinks:
        sizes = _sizes(place, view, sink)
        steps = explain(view, sink, origin, sizes, switches=switches, keep_s=keep_s)
        found.append(Planned(view, sink, origin, sizes, steps))
    return tuple(found)


def rebuild(
    place: Place, view: str, sinks: Sequence[str], origin: Origin = Origin.TOPIC, *, switches: bool = True, by: str = ""
) -> tuple[str, ...]:
    """Begins them; the ids by which they are followed. Raises ViewError when one is refused."""
    require_kept(place)
    at_s = _applied_at_s(place, view, origin)
    ids = []
    for sink in sinks:
        order = Order(Verb.REBUILD, view, sink, by=by, origin=origin, switches=switches, applied_at_s=at_s)
        ask(place, order)
        ids.append(order.id)
    return tuple(ids)


def control(place: Place, verb: Verb, id_: str, by: str = "") -> str:
    """Pauses, resumes or cancels a rebuild."""
    return ask(place, Order(verb, rebuild=id_, by=by)).fact


def switch(place: Place, view: str, sink: str = "", by: str = "") -> str:
    return ask(place, Order(Verb.SWITCH, view, sink, by=by)).fact


def rollback(place: Place, view: str, sink: str = "", by: str = "") -> str:
    return ask(place, Order(Verb.ROLLBACK, view, sink, by=by)).fact


def retire(place: Place, view: str, sink: str, number: int, by: str = "") -> str:
    return ask(place, Order(Verb.RETIRE, view, sink, number=number, by=by)).fact


def pause(place: Place, views: Sequence[str], sink: str = "", by: str = "") -> str:
    return _each(place, Verb.HOLD, views, sink, by)


def resume(place: Place, views: Sequence[str], sink: str = "", by: str = "") -> str:
    return _each(place, Verb.RELEASE, views, sink, by)


def book(place: Place) -> Book:
    return place.registry.book()


def found(place: Place, ids: Sequence[str]) -> list[Rebuild]:
    known = book(place)
    return [each for id_ in ids if (each := known.rebuild(id_)) is not None]


def generations(place: Place, view: str = "") -> list[Generation]:
    """Those of the book, and what readers use where nothing was ever rebuilt."""
    known = list(book(place).generations)
    for status in place.registry.state().sinks:
        live = Generation(status.view, status.sink, status.generation, GenerationState.LIVE, 0.0)
        if status.generation and live.name not in {each.name for each in known}:
            known.append(live)
    return sorted((each for each in known if view in ("", each.view)), key=lambda each: each.name)


def ask(place: Place, order: Order, timeout_s: float = ANSWER_S_MAX) -> Answer:
    """Gives an order and waits for its answer. Raises ViewError when it was refused, or nobody is there to obey."""
    require_kept(place)
    Orders(place.registry.folder).give(order)
    deadline = time.monotonic() + timeout_s
    while (answer := place.registry.book().answer(order.id)) is None:
        if time.monotonic() > deadline:
            raise ViewError(
                "the process that keeps the views does not answer",
                detail=f"{order.verb} of {order.view or order.rebuild}, for {timeout_s:g} s; it will be obeyed later",
                hint="headwater logs views",
            )
        time.sleep(POLL_S)
    if not answer.is_done:
        raise ViewError(answer.fact, detail=answer.detail, hint=answer.hint)
    return answer


def require_kept(place: Place) -> None:
    if not place.registry.is_kept():
        raise nobody(place.registry.state())


def _each(place: Place, verb: Verb, views: Sequence[str], sink: str, by: str) -> str:
    """Whole views together, because they may be kept together; sinks one by one."""
    if not sink:
        return ask(place, Order(verb, views[0], others=tuple(views[1:]), by=by)).fact
    return "; ".join(ask(place, Order(verb, view, sink, by=by)).fact for view in views)


def _applied_at_s(place: Place, view: str, origin: Origin) -> float:
    """Has the view computed anew, if that is wanted: which application of it to wait for."""
    if origin is Origin.TOPIC:
        return 0.0
    if origin in (Origin.LOG, Origin.MIRRORS):
        return apply_again(place.registry, [view], from_mirrors=origin is Origin.MIRRORS).at_s
    from cdc.postgres import connect

    deployment = place.deployment
    with connect(deployment.postgres) as conn:
        return read_anew(place.registry, [view], conn, deployment.kafka, deployment.source).at_s


def _sizes(place: Place, view: str, sink: str) -> Sizes:
    deployment = place.deployment
    status = next((each for each in place.registry.state().sinks if (each.view, each.sink) == (view, sink)), None)
    mark = status.mark if status else None
    log = topic_state(deployment.kafka, deployment.source.changes_topic)
    rows = mirrored = 0
    with suppress(HeadwaterError):  # it is being built
        kept = open_view(place.registry, Frontiers(deployment.kafka, deployment.source).look(), view)
        rows = kept.occupied().rows
        mirrored = sum(each.rows for each in kept.arrangements() if each.kind == "table")
    measured = _measured(place.registry.book(), sink)
    return Sizes(
        rows,
        mark.next_offset - mark.since if mark else 0,
        log.high - log.low,
        round((log.high - log.low) * _record_bytes(place, log.high)),
        measured or ROWS_PER_S.get(sink, min(ROWS_PER_S.values())),
        LOG_RECORDS_PER_S,
        measured is not None,
        mirrored,
    )


def _measured(book: Book, sink: str) -> float | None:
    """What the last rebuild of such a sink took."""
    for each in reversed(book.rebuilds):
        if each.sink == sink and each.state is RebuildState.DONE and each.total and Stage.CATCH_UP in each.began:
            took_s = each.began[Stage.CATCH_UP] - each.began.get(Stage.FILL, each.asked_at_s)
            return each.total / took_s if took_s > 0 else None
    return None


def _record_bytes(place: Place, end: int) -> float:
    """Of a record of the log, by its last ones."""
    deployment = place.deployment
    start = max(0, end - SAMPLE_RECORDS)
    chunks = read_range(deployment.kafka, deployment.source.changes_topic, start, end)
    sizes = [
        len(raw.value or b"") + len(raw.key or b"") for raw in islice((r for c in chunks for r in c), SAMPLE_RECORDS)
    ]
    return sum(sizes) / len(sizes) if sizes else 0.0
