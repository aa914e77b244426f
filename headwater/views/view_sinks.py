"""The places that hold a view's rows, opened one after the other: what verifying, sampling and repairing go over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from cdc.errors import ViewError
from headwater.sinks import sink_kinds
from headwater.views.kept import KeptView
from headwater.views.place import Place
from views.maintain.publisher import view_topic
from views.sinks.following import ViewTopic
from views.sinks.sink import Sink, SinkKind

FILLED_S_MAX: Final = 60.0
POLL_S: Final = 0.5


@dataclass(frozen=True)
class ViewSink:
    name: str
    generation: int
    sink: Sink


def sinks_with_rows(place: Place, kept: KeptView) -> dict[str, SinkKind]:
    """By name, those that the view lists and that hold its rows."""
    listed = kept.group.declared[kept.view].sinks
    return {name: kind for name, kind in sink_kinds(place.deployment).items() if name in listed and kind.holds_rows}


@contextmanager
def opened(place: Place, kept: KeptView, kind: SinkKind, filled_s_max: float = FILLED_S_MAX) -> Iterator[ViewSink]:
    """The generation that readers use. Waits for the first one, which may be on its way."""
    source = place.deployment.source
    generation = _filled(kind, source.name, kept.view, filled_s_max)
    sink = kind.open(kept.group.shape(kept.view, source), generation)
    try:
        yield ViewSink(kind.name, generation, sink)
    finally:
        sink.close()


def topic_of(place: Place, view: str) -> ViewTopic:
    return ViewTopic(place.deployment.kafka, view_topic(place.deployment.source, view))


def _filled(kind: SinkKind, source: str, view: str, timeout_s: float) -> int:
    deadline = time.monotonic() + timeout_s
    while (generation := kind.current(source, view)) is None:
        if time.monotonic() > deadline:
            raise ViewError(f"the {kind.name} of {view} is not filled", hint=f"headwater views {view}")
        time.sleep(POLL_S)
    return generation
