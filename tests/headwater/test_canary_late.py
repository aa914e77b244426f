"""A number that was committed and does not arrive: told as late, first as a warning."""

from __future__ import annotations

import pytest

from cdc.addresses import KafkaAddress, PostgresAddress, Source
from cdc.canary import CanaryCheck
from cdc.changelog import ChangeLog
from headwater.service.canary import LATE_FAIL_S, LATE_WARN_S, Canary


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
