"""What is told of the views and their groups, for who looks from outside: one file, written anew every second."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from cdc.addresses import KafkaAddress, Source
from cdc.position import Lsn
from cdc.topics import topic_state
from views.maintain.meters import Meters
from views.maintain.registry import GroupStatus, Registry, State
from views.maintain.riding import Riding
from views.maintain.runner import GroupRunner
from views.maintain.sinking import Sinking
from views.maintain.standing_by import StandingBy
from views.maintain.statuses import Statuses


@dataclass
class Noting:
    kafka: KafkaAddress
    source: Source
    registry: Registry
    views: Statuses
    runners: Mapping[str, GroupRunner]
    meters: Meters
    riding: Riding
    sinking: Sinking
    standing_by: StandingBy
    by_themselves: Collection[str]
    """Groups that follow the log by themselves now."""
    end: int = 0
    """Of the log, when it was last noted."""
    _put_back_at: dict[str, float] = field(default_factory=dict)

    def note(self, problem: str) -> None:
        end = self.end = topic_state(self.kafka, self.source.changes_topic).high
        self.meters.came(end)
        groups = {name: self._group(name, runner, end) for name, runner in list(self.runners.items())}
        self.registry.note(
            State(
                time.time(),
                os.getpid(),
                dict(self.views),
                groups,
                self.meters.summary(self.riding.measured),
                self.meters.memory_mb(),
                problem,
                self.sinking.statuses(),
                self.standing_by.statuses(),
                self.sinking.statuses_beside(),
            )
        )

    def _group(self, name: str, runner: GroupRunner, end: int) -> GroupStatus:
        progress = runner.progress
        return GroupStatus(
            runner.offset,
            end,
            progress.is_live,
            name in self.by_themselves,
            str(Lsn(progress.lsn or 0)),
            progress.committed_at_us,
            runner.group.spec.era,
            progress.is_put_back,
            self._put_back_since(name, progress.is_put_back),
            progress.canary,
        )

    def _put_back_since(self, group: str, is_put_back: bool) -> float:
        if not is_put_back:
            self._put_back_at.pop(group, None)
            return 0.0
        return self._put_back_at.setdefault(group, time.time())
