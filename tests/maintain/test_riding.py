"""Who joins the groups that ride comes to them epoch by epoch, as the log is cut. Without Spark."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from cdc.addresses import KafkaAddress, Source
from views.maintain.catch_up import REST_S_MAX, _is_close
from views.maintain.riding import JOIN_RECORDS_MAX, Riding


@dataclass
class Runner:
    """A group at an offset."""

    offset: int
    is_stuck: bool = False
    ran: list[int] = field(default_factory=list)
    progress: Any = field(default_factory=lambda: SimpleNamespace(is_snapshot_whole=True, is_live=True))
    archive = intended = None
    published_to = 0
    ran_at: float = field(default_factory=time.monotonic)

    def run(self, end: int) -> None:
        self.ran.append(end)
        self.offset = self.offset if self.is_stuck else end


def riding(at: int) -> Riding:
    given: Any = [lambda *_: None] * 4
    made = Riding(None, KafkaAddress("nowhere:1"), Source("s"), 50_000, 1.0, *given)  # type: ignore[arg-type]
    made._query, made._offset = SimpleNamespace(is_active=True), at  # type: ignore[assignment]
    return made


def joined(others: Riding, runner: Any, cuts: list[int]) -> bool:
    return others.join(runner, lambda to: min((cut for cut in [*cuts, to] if cut > runner.offset), default=to))


def test_who_joins_runs_the_epochs_on_the_way() -> None:
    others, runner = riding(1000), Runner(100)
    assert joined(others, runner, [300, 301, 2000])
    assert runner.ran == [300, 301, 1000]
    assert others.groups == [runner]


@pytest.mark.parametrize("runner", [Runner(1000 - JOIN_RECORDS_MAX - 1), Runner(100, is_stuck=True)])
def test_who_does_not_get_there_does_not_join(runner: Runner) -> None:
    others = riding(1000)
    assert not joined(others, runner, [])
    assert others.groups == []


def test_who_stands_by_meanwhile_does_not_join() -> None:
    """Its readers left while it waited for an epoch of the others: riding, it could not be shown again."""
    others, runner = riding(1000), Runner(990)
    runner.progress.is_live = False
    assert not joined(others, runner, [])
    assert (others.groups, runner.ran) == ([], [])


@pytest.mark.parametrize(("high", "close"), [(JOIN_RECORDS_MAX, True), (JOIN_RECORDS_MAX + 1, False)])
def test_close_is_close_to_the_end_of_the_log_wherever_its_epochs_are_cut(high: int, close: bool) -> None:
    planner: Any = SimpleNamespace(seen=(SimpleNamespace(offset=high), "topic"))
    runner: Any = Runner(0)
    assert _is_close(runner, planner) is close


def test_who_is_not_shown_reads_on_after_a_while() -> None:
    """It holds what was deleted until it has read that, and on a quiet log nobody else makes it."""
    planner: Any = SimpleNamespace(seen=(SimpleNamespace(offset=1), "topic"))
    runner: Any = Runner(0)
    runner.ran_at = time.monotonic() - REST_S_MAX - 1
    assert _is_close(runner, planner), "to ride"
    runner.progress.is_live = False
    assert not _is_close(runner, planner)
    runner.ran_at = time.monotonic()
    assert _is_close(runner, planner)
