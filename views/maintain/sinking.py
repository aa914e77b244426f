"""Every view in every place that it lists: a lane each, fed with what the groups publish."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cdc.addresses import KafkaAddress, Source
from cdc.errors import HeadwaterError
from cdc.topics import find_topic
from views.maintain.group import Group
from views.maintain.publisher import Frontier, Published, view_topic
from views.sinks.board import Board
from views.sinks.following import ViewTopic
from views.sinks.inbox import Delivery
from views.sinks.lane import Lane, LaneLimits, SinkStatus
from views.sinks.sink import Mark, SinkKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Sinking:
    kafka: KafkaAddress
    source: Source
    kinds: Mapping[str, SinkKind]
    spark: SparkSession | None = None
    limits: LaneLimits = field(default_factory=LaneLimits)

    def __post_init__(self) -> None:
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._topic_ids: dict[str, str] = {}
        self._told: Board | None = None

    def published(self, group: Group, published: list[Published]) -> None:
        """What an epoch brought, or how far the views are. Never waits for a place."""
        for each in published:
            view = each.frontier.view
            topic_id = self._topic_id(view)
            if topic_id is None:
                continue  # nothing was ever published: there is nothing to keep
            delivery = Delivery(_mark(each.frontier, topic_id), each.after, each.changes)
            for lane in self._lanes_of(group, view):
                lane.offer(delivery)

    def forget(self, view: str) -> list[str]:
        """A view that was dropped leaves nothing. What could not be removed is told."""
        self._topic_ids.pop(view, None)
        return [told for key in list(self._lanes) if key[0] == view and (told := self._remove(key))]

    def statuses(self) -> list[SinkStatus]:
        return [lane.status for lane in list(self._lanes.values())]

    def close(self) -> None:
        lanes = list(self._lanes.values())
        with ThreadPoolExecutor(max_workers=max(len(lanes), 1)) as pool:
            list(pool.map(Lane.stop, lanes))
        if self._told is not None:
            self._told.close()

    def _lanes_of(self, group: Group, view: str) -> list[Lane]:
        wanted = [name for name in group.declared[view].sinks if name in self.kinds]
        shape = group.shape(view, self.source)
        for key in [key for key in self._lanes if key[0] == view]:
            if key[1] not in wanted:
                self._remove(key)
            elif self._lanes[key].shape != shape:
                self._lanes.pop(key).stop()
        return [self._lanes.get((view, name)) or self._begin(name, group, view) for name in wanted]

    def _begin(self, name: str, group: Group, view: str) -> Lane:
        lane = Lane(
            self.kinds[name],
            group.shape(view, self.source),
            ViewTopic(self.kafka, view_topic(self.source, view)),
            self.limits,
            tell=self._board.tell,
            refuse=self._board.refuse,
            spark=self.spark,
        )
        self._lanes[view, name] = lane
        return lane

    def _remove(self, key: tuple[str, str]) -> str:
        lane = self._lanes.pop(key)
        try:
            lane.drop()
        except HeadwaterError as error:
            return f"{key[1]} of {key[0]}: {error.fact}"
        self._board.forget(*key)
        return ""

    @property
    def _board(self) -> Board:
        """Made with the first lane: before that nobody need reach Kafka for it."""
        if self._told is None:
            self._told = Board(self.kafka, self.source)
        return self._told

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
