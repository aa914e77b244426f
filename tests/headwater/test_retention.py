"""`headwater retention`: how topics let go, in words; on the real thing it is looked at in test_erase.py."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headwater.retention import topic_policy

OLDEST = datetime(2026, 11, 1, tzinfo=UTC)
DAY_MS = 24 * 3_600_000


def test_a_log_lets_go_of_what_is_old() -> None:
    settings = {"cleanup.policy": "delete", "retention.ms": str(7 * DAY_MS)}
    assert topic_policy(settings, OLDEST) == (
        "everything for 7 days",
        "the oldest segment",
        OLDEST + timedelta(days=7),
    )
    assert topic_policy(settings, None)[2] is None
    assert topic_policy({"retention.ms": "-1"}, OLDEST) == ("for ever", "nothing", None)


def test_a_compacted_topic_keeps_the_newest() -> None:
    bound = {"min.compaction.lag.ms": str(DAY_MS), "max.compaction.lag.ms": str(2 * DAY_MS)}
    assert topic_policy({"cleanup.policy": "compact", **bound}, OLDEST) == (
        "newest of each key; every version for 1 days, at most 2 days",
        "older versions of a key",
        None,
    )
    unbound = {"cleanup.policy": "compact", "max.compaction.lag.ms": str(2**63 - 1)}
    assert topic_policy(unbound, OLDEST)[0] == "newest of each key; every version for 0 hours"
