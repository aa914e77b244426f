"""Brings a generation up to a mark: in tasks of Spark's while that is far, then in the thread of who asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from views.sinks.following import CutOff, FollowTask, Holding, Moved, Reached, ViewTopic, follow
from views.sinks.held_keys import HeldKeys
from views.sinks.lane_limits import LaneLimits
from views.sinks.letters import Told
from views.sinks.sink import Mark, Sink, SinkKind, ViewShape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Follower:
    kind: SinkKind
    shape: ViewShape
    topic: ViewTopic
    limits: LaneLimits
    spark: SparkSession | None
    """Without it nothing is far."""
    piece: Callable[[], int]
    """How much is filled at a time of what nobody reads."""

    def follow(
        self,
        sink: Sink,
        generation: int,
        mark: Mark,
        target: Mark,
        held: HeldKeys,
        moved: Moved,
        told_off: Callable[[list[Told]], None],
        *,
        is_read: bool,
    ) -> None:
        """From the one mark to the other. `moved` is told of each step and may raise to end it there; `told_off`, of
        what was refused or taken after all, also when it is cut off."""
        rows_max = self.kind.rows_per_apply_max or self.limits.chunk_rows_max
        while self.spark is not None and target.next_offset - mark.next_offset >= self.limits.task_records_min:
            records_max = self.limits.task_records_max if is_read else self.piece()
            task = FollowTask(
                self.kind,
                self.shape,
                generation,
                self.topic,
                mark,
                target,
                rows_max,
                frozenset(held.keys),
                is_read,
                records_max,
            )
            answered = self.spark.sparkContext.parallelize([0], 1).mapPartitions(task).collect()
            told_off([each for each in answered if isinstance(each, Told)])
            for each in answered:
                if isinstance(each, CutOff):
                    raise each.error
                if isinstance(each, Reached):
                    mark = each.mark
                    moved(mark, each.records)
        holding = Holding(set(held.keys))
        try:
            follow(sink, self.topic, mark, target, rows_max, holding, moved, is_read=is_read)
        finally:
            told_off(holding.told)
