"""Which generation of a place a lane feeds, and from which mark on: what is there, if the view's topic can bring it up
to the view, or another one, which is to be filled."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from cdc.errors import SinkError, SinkUnavailable
from views.sinks import wholeness
from views.sinks.following import ViewTopic
from views.sinks.sink import HistorySink, Mark, Sink, SinkKind, ViewShape


class Opened(NamedTuple):
    number: int
    sink: Sink
    mark: Mark
    """What it includes; the view's beginning for one that has nothing."""


@dataclass(frozen=True)
class Opening:
    kind: SinkKind
    shape: ViewShape
    topic: ViewTopic
    next_number: Callable[[int], int]

    def shown(self, target: Mark) -> Opened:
        """The one that readers use, if it is of the view's present shape; else the next one, which is to be filled."""
        current = self.kind.current(self.shape.source, self.shape.view)
        if current is not None:
            sink = self.kind.open(self.shape, current)
            mark = sink.mark()
            if mark is None or self._goes_on(mark, target):
                return Opened(current, sink, self._ready(sink, mark, target))
            sink.close()
        return self.beside(self.next_number(current or 0), target)

    def beside(self, number: int, target: Mark) -> Opened:
        """One that nobody reads yet: goes on where somebody left it, if it is of the view's present shape."""
        sink = self.kind.open(self.shape, number)
        mark = sink.mark()
        if mark is None or not self._goes_on(mark, target):
            sink.drop()  # what somebody began and did not finish
            mark = None
        return Opened(number, sink, self._ready(sink, mark, target))

    def _goes_on(self, mark: Mark, target: Mark) -> bool:
        """Whether what is there need only be brought up to the target. Not a place that stood still for days: the topic
        tells of a deletion for a while only."""
        if not is_same(mark, target):
            return False
        now_ms = time.time_ns() // 1_000_000
        is_young = mark.published_at_us // 1000 >= now_ms - wholeness.DELETIONS_MS
        if is_young or mark.next_offset >= target.next_offset or not self.kind.holds_rows:
            return True
        pieces = self.topic.records(mark.next_offset, target.next_offset)
        first = next(((raw.offset, raw.written_at_ms) for piece in pieces for raw in piece), None)
        return not wholeness.may_lack_deletions(mark.next_offset, first, now_ms)

    def _ready(self, sink: Sink, mark: Mark | None, target: Mark) -> Mark:
        if mark is None:
            mark = self._restored(sink, target)
        else:
            sink.prepare()
        return mark or beginning(target)

    def _restored(self, sink: Sink, target: Mark) -> Mark | None:
        """A place without a mark: a history may bring one back; what else is left of it is not to be trusted."""
        if isinstance(sink, HistorySink):
            try:
                sink.prepare()
                mark = sink.mark()
            except SinkUnavailable:
                raise
            except SinkError:  # of another shape
                mark = None
            if mark is not None and is_same(mark, target):
                return mark
        sink.drop()
        sink.prepare()
        return None


def is_same(mark: Mark, target: Mark) -> bool:
    """Of the same shape: what is there need only be brought up to the target."""
    return (mark.topic_id, mark.since, mark.made_for) == (target.topic_id, target.since, target.made_for)


def beginning(target: Mark) -> Mark:
    """Of a place that has nothing yet."""
    return Mark(target.topic_id, target.since, target.since, made_for=target.made_for)
