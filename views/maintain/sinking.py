"""Every view in every place that it lists: a lane each, fed with what the groups publish.

Beside the lane that is shown a place may have others, one for each further generation that is fed (`rebuilding.py`
decides which). A place that a person has paused has none.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from cdc.addresses import KafkaAddress, Source
from cdc.errors import HeadwaterError, SinkUnavailable
from cdc.topics import find_topic
from views.maintain.group import Group
from views.maintain.publisher import Frontier, Published, view_topic
from views.sinks.board import Board
from views.sinks.following import ViewTopic
from views.sinks.inbox import Delivery
from views.sinks.lane import Lane, LaneLimits, LaneState, SinkStatus
from views.sinks.letters import Letters
from views.sinks.sink import Mark, SinkKind, ViewShape, nameless
from views.sinks.switching import switch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Sinking:
    kafka: KafkaAddress
    source: Source
    kinds: Mapping[str, SinkKind]
    spark: SparkSession | None = None
    limits: LaneLimits = field(default_factory=LaneLimits)

    next_number: Callable[[str, str, int], int] = lambda view, sink, current: current + 1
    """Of a generation that a lane makes by itself: (view, sink, the one that readers use)."""
    rest: Callable[[float, int], float] = lambda worked_s, records: 0.0
    """How long who fills a generation in the background rests after so many seconds and records."""
    piece: Callable[[], int] | None = None
    """How many records are filled between two rests."""
    held_back: Callable[[], str] = lambda: ""
    """Why it is filled slower than it could be; empty while it is not."""

    def __post_init__(self) -> None:
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._sides: dict[tuple[str, str, int], Lane] = {}
        self._paused: dict[tuple[str, str], SinkStatus] = {}
        self._shapes: dict[tuple[str, str], ViewShape] = {}
        """What was last to be written where: what is over there is removed by it."""
        self._unfed: dict[tuple[str, str, int], float] = {}
        """Since when what is not shown is not fed."""
        self._listed: dict[str, frozenset[str]] = {}
        """By view, the places that it is to be in, as it was last published."""
        self._topic_ids: dict[str, str] = {}
        self._told: Board | None = None
        self._refused: Letters | None = None
        self._changing = threading.RLock()
        """Held by who changes which lanes there are."""

    def published(self, group: Group, published: list[Published]) -> None:
        """What an epoch brought, or how far the views are. Never waits for a place."""
        for each in published:
            view = each.frontier.view
            topic_id = self._topic_id(view)
            if topic_id is None:
                continue  # nothing was ever published: there is nothing to keep
            delivery = Delivery(_mark(each.frontier, topic_id), each.after, each.changes)
            with self._changing:
                lanes = self._lanes_of(group, view)
                shape = group.shape(view, self.source)
                lanes += [lane for name, lane in self._sides.items() if name[0] == view and lane.shape == shape]
            for lane in lanes:
                lane.offer(delivery)

    def forget(self, view: str) -> list[str]:
        """A view that was dropped is not written anywhere any more. The places that could be emptied."""
        self._topic_ids.pop(view, None)
        with self._changing:
            self._listed.pop(view, None)
            self._take_up([key for key in self._paused if key[0] == view])
            return [key[1] for key in list(self._lanes) if key[0] == view and self._remove(key)]

    def statuses(self) -> list[SinkStatus]:
        """Of what readers use."""
        return [*(lane.status for lane in list(self._lanes.values())), *self._paused.values()]

    def statuses_beside(self) -> list[SinkStatus]:
        """Of generations that are not shown; one that is not fed is stale until it was brought up to the view again."""
        sides, now_s = dict(self._sides), time.time()
        for name, lane in sides.items():
            if lane.status.state is LaneState.RIDING:
                self._unfed.pop(name, None)
            elif lane.status.state is not LaneState.FOLLOWING:
                self._unfed.setdefault(name, now_s)
        self._unfed = {name: since_s for name, since_s in self._unfed.items() if name in sides}
        return [
            msgspec.structs.replace(
                lane.status,
                generation=name[2],
                stale=f"it is {lane.status.state}" if name in self._unfed else "",
                stale_since_s=self._unfed.get(name, 0.0),
            )
            for name, lane in sides.items()
        ]

    def behind_ms(self) -> float:
        """How far the slowest of what readers use is behind its view; of places that are fed as it comes."""
        return max((lane.behind_ms for lane in list(self._lanes.values()) if not lane.kind.interval_s), default=0.0)

    def close(self) -> None:
        lanes = [*self._lanes.values(), *self._sides.values()]
        with ThreadPoolExecutor(max_workers=max(len(lanes), 1)) as pool:
            list(pool.map(Lane.stop, lanes))
        if self._told is not None:
            self._told.close()

    # Generations beside the one that readers use

    def lanes(self) -> list[Lane]:
        """Of what readers use, or will."""
        with self._changing:
            return list(self._lanes.values())

    def shown(self, view: str, sink: str) -> Lane | None:
        return self._lanes.get((view, sink))

    def side(self, view: str, sink: str, number: int) -> Lane | None:
        """Feeds that generation from now on. Idempotent. None while no lane is shown, or if that one feeds it."""
        with self._changing:
            main = self._lanes.get((view, sink))
            known = self._sides.get((view, sink, number))
            if known is not None or main is None or main.target is None or main.number in (None, number):
                return known
            lane = self._made(main.kind, main.shape, number)
            self._sides[view, sink, number] = lane
            lane.offer(Delivery(main.target, main.target.next_offset, None))
            return lane

    def leave(self, view: str, sink: str, number: int) -> None:
        """Feeds it no longer; what is there stays. Idempotent."""
        with self._changing:
            lane = self._sides.pop((view, sink, number), None)
        if lane is not None:
            lane.stop()

    def remove(self, view: str, sink: str, number: int) -> bool:
        """What was written of it goes. Idempotent; False while nobody knows the view's shape there, and of what readers
        use."""
        self.leave(view, sink, number)
        shape = self._shapes.get((view, sink))
        if shape is None or self.is_used(view, sink, number):
            return False
        written = self.kinds[sink].open(shape, number)
        try:
            written.drop()
        finally:
            written.close()
        return True

    def remove_unwanted(self, view: str, sink: str, number: int) -> bool:
        """The same where nobody wants the view any more: what readers use there goes as well, and they find none. What
        is wanted again is asked as always."""
        kind = self.kinds.get(sink)
        with self._changing:
            is_back = (view, sink) in self._lanes or (view, sink) in self._paused
        if is_back or kind is None:
            return self.remove(view, sink, number)
        current = kind.current(self.source.name, view)
        for each in {number, current or number}:
            written = kind.open(nameless(self.source.name, view), each)
            try:
                written.drop()
            finally:
                written.close()
        if current is not None:
            kind.switch(self.source.name, view, None)
        self._board.forget(view, sink)
        self._letters.forget(view, sink)
        return True

    def is_unlisted(self, view: str, sink: str) -> bool:
        """The view is published, and is not to be in that place any more."""
        with self._changing:  # who takes it off has done what he can by then
            return sink not in self._listed.get(view, (sink,))

    def is_used(self, view: str, sink: str, number: int) -> bool:
        """Readers use it, or the lane that is shown fills it for them."""
        main, kind = self._lanes.get((view, sink)), self.kinds.get(sink)
        if main is not None and main.number == number:
            return True
        return kind is not None and kind.current(self.source.name, view) == number

    def switch(self, view: str, sink: str, number: int) -> int | None:
        """Readers go over to that generation; which they came from. Idempotent: None if they use it already."""
        with self._changing:
            main, side = self._lanes.get((view, sink)), self._sides.get((view, sink, number))
            paused = self._paused.get((view, sink))
        if main is not None and main.number == number and main.is_shown:
            return None
        if main is None or side is None or main.number is None:
            raise SinkUnavailable(
                f"generation {number} of the {sink} of {view} is not fed",
                detail=f"it is {paused.reason}" if paused else "nothing can be switched to it",
                hint=f"headwater generations {view}",
            )
        switch(main, side)
        with self._changing:
            self._lanes[view, sink] = side
            del self._sides[view, sink, number]
            self._sides[view, sink, main.number] = main
        return main.number

    def mismatched(self) -> list[tuple[str, str, int]]:
        """Generations whose view has other columns by now: nothing can feed them any more."""
        with self._changing:
            return [
                name
                for name, lane in self._sides.items()
                if (main := self._lanes.get(name[:2])) is not None and main.shape != lane.shape
            ]

    # What a person has paused

    def hold(self, view: str, sink: str, reason: str, since_s: float) -> None:
        """The place is left as it is. Idempotent."""
        with self._changing:
            lane = self._lanes.pop((view, sink), None)
            known = lane.status if lane is not None else SinkStatus(view, sink, LaneState.PAUSED)
            stale, stale_since_s = (known.stale, known.stale_since_s) if known.stale else (f"it is {reason}", since_s)
            self._paused[view, sink] = msgspec.structs.replace(
                known, state=LaneState.PAUSED, reason=reason, stale=stale, stale_since_s=stale_since_s
            )
            sides = [self._sides.pop(name) for name in list(self._sides) if name[:2] == (view, sink)]
        for each in [lane, *sides]:
            if each is not None:
                each.stop()
        self._board.tell(self._paused[view, sink])

    def release(self, view: str, sink: str) -> None:
        """The next publication begins its lane again, where the place is. Idempotent."""
        with self._changing:
            self._paused.pop((view, sink), None)

    def _lanes_of(self, group: Group, view: str) -> list[Lane]:
        listed = group.declared[view].sinks
        wanted = [name for name in listed if name in self.kinds and (view, name) not in self._paused]
        shape = group.shape(view, self.source)
        self._shapes |= {(view, name): shape for name in listed if name in self.kinds}
        self._listed[view] = frozenset(listed)
        self._take_up([key for key in self._paused if key[0] == view and key[1] not in listed])
        for key in [key for key in self._lanes if key[0] == view]:
            if key[1] not in wanted:
                self._remove(key)
            elif self._lanes[key].shape != shape:
                self._lanes.pop(key).stop()
        return [self._lanes.get((view, name)) or self._begin(name, group, view) for name in wanted]

    def _take_up(self, paused: list[tuple[str, str]]) -> None:
        """They have lanes again, to be removed like others."""
        for key in paused:
            del self._paused[key]
            if (kind := self.kinds.get(key[1])) is not None:
                self._lanes[key] = self._made(kind, nameless(self.source.name, key[0]), None)

    def _begin(self, name: str, group: Group, view: str) -> Lane:
        lane = self._made(self.kinds[name], group.shape(view, self.source), None)
        self._lanes[view, name] = lane
        return lane

    def _made(self, kind: SinkKind, shape: ViewShape, number: int | None) -> Lane:
        return Lane(
            kind,
            shape,
            ViewTopic(self.kafka, view_topic(self.source, shape.view)),
            self.limits,
            tell=self._board.tell,
            letters=self._letters,
            spark=self.spark,
            number=number,
            next_number=lambda current: self.next_number(shape.view, kind.name, current),
            rest=self.rest,
            piece=self.piece,
        )

    def _remove(self, key: tuple[str, str]) -> bool:
        """Whether its place could be emptied. What is left is in the book (`remove_unwanted`)."""
        lanes = [self._sides.pop(name) for name in list(self._sides) if name[:2] == key]
        lanes.append(self._lanes.pop(key))
        for each in lanes:
            each.stop()  # all of them: nobody writes to a place that cannot be emptied now, or tells of it
        self._board.forget(*key)
        try:
            for each in lanes:
                each.drop()
        except HeadwaterError:
            return False
        self._letters.forget(*key)
        return True

    @property
    def _board(self) -> Board:
        """Made with the first lane: before that nobody need reach Kafka for it."""
        if self._told is None:
            self._told = Board(self.kafka, self.source)
        return self._told

    @property
    def _letters(self) -> Letters:
        if self._refused is None:
            self._refused = Letters(self.kafka, self.source)
        return self._refused

    def _topic_id(self, view: str) -> str | None:
        """Asked once: a topic lives as long as its view."""
        if view not in self._topic_ids:
            found = find_topic(self.kafka, view_topic(self.source, view))
            if found is None:
                return None
            self._topic_ids[view] = found
        return self._topic_ids[view]


def _mark(frontier: Frontier, topic_id: str) -> Mark:
    return Mark(
        topic_id,
        frontier.next_offset,
        frontier.since,
        frontier.era,
        frontier.offset,
        frontier.lsn,
        frontier.committed_at_us,
        frontier.published_at_us,
    )
