"""A number that was committed and does not arrive: told as late, first as a warning."""

from __future__ import annotations

import time
from dataclasses import replace
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from cdc.addresses import KafkaAddress, PostgresAddress, Source
from cdc.canary import CanaryCheck
from cdc.changelog import ChangeLog
from cdc.position import Position
from cdc.snapshots import SnapshotProgress
from headwater.service.canary import LATE_FAIL_S, LATE_WARN_S, Canary
from headwater.service.watch import Watch
from headwater.status import Status
from tests.headwater.test_http import status


def canary() -> Canary:
    check = CanaryCheck(ChangeLog(KafkaAddress("127.0.0.1:1"), Source("shop")))
    return Canary(PostgresAddress("127.0.0.1", 1, "shop", "nobody", ""), check)


@pytest.mark.parametrize(
    ("age_s", "levels"),
    [(LATE_WARN_S - 1, []), (LATE_WARN_S, ["warn"]), (LATE_FAIL_S - 1, ["warn"]), (LATE_FAIL_S, ["fail"])],
)
def test_the_oldest_number_that_is_missing_counts(age_s: float, levels: list[str]) -> None:
    late = canary()
    late.waiting.extend([(7, 100.0), (8, 100.0 + age_s)])
    findings = late.late(100.0 + age_s)
    assert [finding.level for finding in findings] == levels
    assert all("number 7 " in finding.detail for finding in findings)


def test_nothing_is_late_that_was_not_written() -> None:
    assert canary().late(1e9) == []


def test_what_is_held_only_warns_and_is_due_when_that_has_ended() -> None:
    """A person's pause, of an hour say, is no reason to turn readers away."""
    late, ends_at = canary(), 3_600.0
    late.waiting.append((7, 0.0))
    [finding] = late.late(ends_at, is_held=True)
    assert (finding.level, "3600 s ago" in finding.detail) == ("warn", True)
    after = {
        age_s: [finding.level for finding in late.late(ends_at + age_s)]
        for age_s in (LATE_WARN_S - 1, LATE_WARN_S, LATE_FAIL_S - 1, LATE_FAIL_S)
    }
    assert list(after.values()) == [[], ["warn"], ["warn"], ["fail"]]


def shown(seen: Status) -> str:
    """What the watch tells of a number that is overdue, in one look."""
    late, told, stop = canary(), list[Status](), Event()
    late.waiting.append((7, time.monotonic() - LATE_FAIL_S - 1))
    watch: Any = SimpleNamespace(
        stop=stop, show=told.append, children=(), stack=SimpleNamespace(mend=lambda _tell: stop.set()),
        _observer=SimpleNamespace(look=lambda: seen), _canary=late,
        _note_gaps=lambda *_: None, _keep_capture=lambda _: None, _watch_canary=lambda *_: None,
    )  # fmt: skip
    Watch.run(watch)
    [finding] = told[0].findings[len(seen.findings) :]
    return finding.level


@pytest.mark.parametrize(
    ("connector", "is_complete", "level"),
    [("RUNNING", True, "fail"), ("PAUSED", True, "warn"), ("STOPPED", True, "warn"), ("RUNNING", False, "warn"),
     ("FAILED", True, "fail"), ("UNKNOWN", True, "fail")],
)  # fmt: skip
def test_capture_that_a_person_paused_or_that_takes_its_snapshot_is_held(
    connector: str, is_complete: bool, level: str
) -> None:
    snapshot = SnapshotProgress(Position(1, 10), begun=1, complete=is_complete)
    assert shown(replace(status(), connector=connector, snapshot=snapshot)) == level
