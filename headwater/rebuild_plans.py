"""What can be rebuilt, and what a rebuild would do: what it reads, how much that is, and how long it should take.

Nothing is begun here (rebuilds.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

from cdc import eras
from cdc.archive import ArchiveReader
from cdc.errors import ConfigurationError, HeadwaterError, LogError, ViewError
from cdc.reader import read_range
from headwater.deployment import Deployment
from headwater.views.kept import Frontiers, open_view
from headwater.views.past import Past
from headwater.views.place import Place
from headwater.views.story import log_of
from views.maintain.book import Book
from views.maintain.publisher import view_topic
from views.maintain.wanting import LOG_LOST, start_of
from views.rebuild import Origin, Rebuild, RebuildState, Sizes, Stage, Step, explain
from views.refusals import nearest
from views.sinks.following import ViewTopic
from views.sinks.wholeness import records_between

ROWS_PER_S: Final = {"cache": 20_000.0, "search": 5_000.0, "warehouse": 10_000.0}
"""Assumed before a rebuild was measured here."""
VERIFIED_ROWS_PER_S: Final = 18_000.0
MEASURED_MIN: Final = 5_000
"""A smaller rebuild says nothing of how long a larger one takes, but of what every one takes, however small."""
FILLED_S_MIN: Final = 2.0
VERIFIED_S_MIN: Final = 5.0
"""The same before one was measured here: a process of its own compares, and has to begin first."""
LOG_RECORDS_PER_S: Final = 5_000.0
SAMPLE_RECORDS: Final = 200
WAREHOUSE: Final = "warehouse"


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
    holding = _holding(place, view)
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


@dataclass(frozen=True)
class Chosen:
    """What is rebuilt by one request."""

    sinks: Mapping[str, tuple[str, ...]]
    """By view."""
    left_out: Mapping[str, str]
    """By view, why."""


def all_views(place: Place, wanted: Sequence[str] = (), origin: Origin = Origin.TOPIC) -> Chosen:
    """What can be rebuilt of every view, or of the sinks that are named. Raises ConfigurationError if nothing can."""
    sinks, left_out = dict[str, tuple[str, ...]](), dict[str, str]()
    known = place.registry.wanted()
    for view in sorted(known.views):
        holding = [name for name in _holding(place, view) if not wanted or name in wanted]
        under_way = [each for name in holding if (each := place.registry.book().under_way(view, name)) is not None]
        if not holding:
            left_out[view] = f"it has no {' or '.join(wanted) or 'sink'} that holds rows"
        elif origin is not Origin.TOPIC and not known.views[view].is_reviewed:
            left_out[view] = "its changed definition waits for a decision"
        elif under_way:
            left_out[view] = f"rebuild {under_way[0].id} is under way"
        else:
            sinks[view] = tuple(holding)
    if not sinks:
        told = "; ".join(f"{view}: {why}" for view, why in left_out.items())
        raise ConfigurationError("there is nothing to rebuild", detail=told or "no views", hint="headwater views")
    return Chosen(sinks, left_out)


def _holding(place: Place, view: str) -> tuple[str, ...]:
    """Sinks that the view lists and that hold rows. Raises ConfigurationError if there is no such view."""
    from headwater.sinks import sink_kinds
    from views.definition import parse

    known = place.registry.wanted().views
    if view not in known:
        raise ConfigurationError(f"no view {view}", detail=nearest(view, known), hint="headwater views")
    kinds = sink_kinds(place.deployment)
    listed = next(each.sinks for each in parse(known[view].text) if each.name == view)
    return tuple(name for name in listed if name in kinds and kinds[name].holds_rows)


def plan(
    place: Place, view: str, sinks: Sequence[str], origin: Origin = Origin.TOPIC, *, switches: bool = True
) -> tuple[Planned, ...]:
    """Raises ViewError where it cannot begin."""
    require_beginning(place, [view], origin)
    keep_s = float(place.deployment.settings.rebuild.keep_standby_s)
    found = []
    for sink in sinks:
        sizes = _sizes(place, view, sink)
        history = _history(place, view) if sink == WAREHOUSE else ""
        steps = explain(view, sink, origin, sizes, switches=switches, keep_s=keep_s, history=history)
        found.append(Planned(view, sink, origin, sizes, steps))
    return tuple(found)


def require_beginning(place: Place, views: Sequence[str], origin: Origin) -> None:
    """What is computed from the log needs it from its beginning, or from where a snapshot brought the tables' rows."""
    if origin not in (Origin.LOG, Origin.MIRRORS):
        return
    at, wanted = place.deployment, place.registry.wanted().views
    era = eras.current(at.kafka, at.source)
    known = [wanted[view] for view in views]
    skips = {table: skip for view in known if view.era in (0, era.era) for table, skip in view.skip_before.items()}
    archive = ArchiveReader(at.source, at.settings.warehouse_folder) if at.settings.warehouse.archive else None
    try:
        start_of(at.kafka, at.source, archive, era, [row for view in known for row in view.tables], skips)
    except LogError as error:
        if error.fact != LOG_LOST:
            raise
        raise ViewError(
            f"{', '.join(views)} cannot be computed from the log",
            detail=f"{error.fact}: {error.detail}",
            hint=f"headwater rebuild {' '.join(views)} --from snapshot",
        ) from error


def _history(place: Place, view: str) -> str:
    """What becomes of the versions that are kept."""
    anew = "history begins anew, with what the view's log still has: earlier points cannot be asked for any more"
    with suppress(HeadwaterError):  # it is being built, or lost
        past = Past.open(place, view)
        mark = past.warehouse.mark() if past.warehouse is not None else None
        whole_from = past.warehouse.whole_from() if past.warehouse is not None else None
        if past.warehouse is not None and mark is not None and whole_from is not None:
            if mark.since != past.frontier.since:
                return f"{anew} (the view has other columns now)"
            since = past.warehouse.whole_since()
            return (
                "take over from the generation that is read the versions that the view's log has let go: history"
                f" stays whole since {f'{since:%Y-%m-%d %H:%M:%S}Z' if since else 'now'}"
            )
    return f"{anew} (there is none to take over)"


def _sizes(place: Place, view: str, sink: str) -> Sizes:
    deployment = place.deployment
    status = next((each for each in place.registry.state().sinks if (each.view, each.sink) == (view, sink)), None)
    mark = status.mark if status else None
    records, end = _log_records(deployment)
    rows, mirrored = 0, 0
    topic_records = mark.next_offset - mark.since if mark else 0
    with suppress(HeadwaterError):  # it is being built
        kept = open_view(place.registry, Frontiers(deployment.kafka, deployment.source).look(), view)
        rows = kept.occupied().rows
        mirrored = sum(each.rows for each in kept.arrangements() if each.kind == "table")
        if mark is not None:
            topic = ViewTopic(deployment.kafka, view_topic(deployment.source, view))
            topic_records = records_between(mark.since, mark.next_offset, rows, topic.all_from())
    known = place.registry.book()
    measured, small = _measured(known, sink), _small(known, sink)
    return Sizes(
        rows,
        topic_records,
        records,
        round(records * _record_bytes(place, end)),
        measured or ROWS_PER_S.get(sink, min(ROWS_PER_S.values())),
        LOG_RECORDS_PER_S,
        measured is not None or (small is not None and topic_records < MEASURED_MIN),
        _verified(known, sink) or VERIFIED_ROWS_PER_S,
        mirrored,
        small.filled_s if small is not None else FILLED_S_MIN,
        _verifying_s(small) if small is not None else VERIFIED_S_MIN,
    )


def _log_records(deployment: Deployment) -> tuple[int, int]:
    """What a computation from the log reads: of this era, in the archive and in Kafka; and where the log ends."""
    low, high = log_of(deployment).bounds()
    first = eras.current(deployment.kafka, deployment.source).first_offset
    return high.offset - max(low.offset, first), high.offset


def _measured(book: Book, sink: str) -> float | None:
    """Records a second of the last rebuild of such a sink, without pauses."""
    for each in reversed(book.rebuilds):
        if each.sink == sink and each.state is RebuildState.DONE and each.filled >= MEASURED_MIN and each.filled_s > 0:
            return each.filled / each.filled_s
    return None


def _verified(book: Book, sink: str) -> float | None:
    """Rows a second of the last verification of such a rebuild."""
    for each in reversed(book.rebuilds):
        took_s = _verifying_s(each)
        if each.sink == sink and each.checked is not None and each.checked.rows >= MEASURED_MIN and took_s > 0:
            return each.checked.rows / took_s
    return None


def _verifying_s(rebuild: Rebuild) -> float:
    ended = rebuild.began.get(Stage.SWITCH, 0.0)
    return ended - rebuild.began.get(Stage.VERIFY, ended)


def _small(book: Book, sink: str) -> Rebuild | None:
    """The last one that took what every one takes."""
    of_sink = [each for each in book.rebuilds if each.sink == sink and each.state is RebuildState.DONE]
    small = [each for each in of_sink if 0 < each.filled < MEASURED_MIN and _verifying_s(each) > 0]
    return small[-1] if small else None


def _record_bytes(place: Place, end: int) -> float:
    """Of a record of the log, by its last ones."""
    deployment = place.deployment
    start = max(0, end - SAMPLE_RECORDS)
    chunks = read_range(deployment.kafka, deployment.source.changes_topic, start, end)
    sizes = [
        len(raw.value or b"") + len(raw.key or b"") for raw in islice((r for c in chunks for r in c), SAMPLE_RECORDS)
    ]
    return sum(sizes) / len(sizes) if sizes else 0.0
