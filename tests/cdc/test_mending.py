"""When a failed connector is restarted: never over a gap, with growing pauses, and not for ever."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.connect import ConnectorStatus, TaskStatus
from cdc.mending import Decision, Mending, decide

BROKEN = "org.apache.kafka.connect.errors.RetriableException: gone\nCaused by: java.io.EOFException"
RUNNING = ConnectorStatus("c", "RUNNING", "w", (TaskStatus(0, "RUNNING", "w"),))
ONCE = Mending(attempts=1, restarted_at=100.0)


def failed(trace: str = BROKEN) -> ConnectorStatus:
    return ConnectorStatus("c", "RUNNING", "w", (TaskStatus(0, "FAILED", "w", trace),))


def postgres_trace(message: str) -> str:
    return (
        "org.apache.kafka.connect.errors.ConnectException: An exception occurred in the change event producer.\n"
        "\tat io.debezium.pipeline.ErrorHandler.setProducerThrowable(ErrorHandler.java:116)\n"
        f"Caused by: org.postgresql.util.PSQLException: {message}\n"
        "\tat org.postgresql.core.v3.QueryExecutorImpl.receiveErrorResponse(QueryExecutorImpl.java:2733)\n"
    )


GAPS = (
    "io.debezium.DebeziumException: The connector is trying to read change stream starting at PostgresOffsetContext"
    " [lastCommitLsn=LSN{0/1F}], but this is no longer available on the server. Reconfigure the connector to use a"
    " snapshot mode when needed.",
    postgres_trace('ERROR: replication slot "headwater_demo" does not exist'),
    postgres_trace('ERROR: can no longer get changes from replication slot "headwater_demo"'),
    postgres_trace(
        'ERROR: can no longer access replication slot "headwater_demo"\n'
        '  Detail: This replication slot has been invalidated due to "wal_removed".'
    ),
    postgres_trace("ERROR: requested WAL segment 000000010000000000000004 has already been removed"),
    postgres_trace("ERROR: cannot advance replication slot to 0/15D4A38, minimum is 0/15D4A70"),
    "io.debezium.DebeziumException: Cannot seek to the last known offset '0/15D4A38' on replication slot 'headwater'",
)

HARMLESS = (
    BROKEN,
    postgres_trace("FATAL: terminating connection due to administrator command"),
    postgres_trace("Connection to 127.0.0.1:5432 refused."),
    postgres_trace('ERROR: replication slot "headwater_demo" is active for PID 4711'),
    postgres_trace('FATAL: database "demo" does not exist'),
    postgres_trace('FATAL: password authentication failed for user "capture"'),
)


@pytest.mark.parametrize("trace", GAPS)
def test_a_gap_is_left_to_a_person(trace: str) -> None:
    decision = decide(failed(trace), Mending(), 1_000.0)
    assert decision == Decision(False, Mending(), failed(trace).reason, fatal=True)
    assert decision.reason


@pytest.mark.parametrize("trace", HARMLESS)
def test_what_another_try_may_cure_is_tried_at_once(trace: str) -> None:
    decision = decide(failed(trace), Mending(), 1_000.0)
    assert decision.restart
    assert not decision.fatal
    assert decision.mending == Mending(attempts=1, restarted_at=1_000.0)


def test_a_connector_that_failed_itself_counts_too() -> None:
    status = ConnectorStatus("c", "FAILED", "w", (), trace=BROKEN)
    assert decide(status, Mending(), 0.0).restart
    assert decide(replace(status, trace=GAPS[1]), Mending(), 0.0).fatal


@pytest.mark.parametrize(
    "status", [None, RUNNING, replace(RUNNING, state="PAUSED", tasks=()), replace(RUNNING, tasks=())]
)
def test_what_has_not_failed_is_left_alone(status: ConnectorStatus | None) -> None:
    assert decide(status, ONCE, 101.0) == Decision(False, ONCE)


def test_the_next_try_waits_for_its_pause() -> None:
    twice = Mending(attempts=2, restarted_at=100.0, backoff_s=1.0)
    assert not decide(failed(), twice, 101.9).restart
    assert decide(failed(), twice, 102.0).restart


def test_after_too_many_tries_it_is_left_as_failed() -> None:
    worn = Mending(attempts=3, attempts_max=3, restarted_at=0.0)
    assert decide(failed(), worn, 10_000.0) == Decision(False, worn, failed().reason, fatal=True)


def test_a_quiet_spell_is_forgiving_and_only_a_long_one() -> None:
    assert decide(RUNNING, ONCE, ONCE.restarted_at + ONCE.forget_after_s).mending == ONCE
    assert decide(RUNNING, ONCE, ONCE.restarted_at + ONCE.forget_after_s + 1).mending == replace(ONCE, attempts=0)


mendings = st.builds(
    Mending,
    attempts=st.integers(0, 5_000),
    restarted_at=st.floats(-1e6, 1e6),
    backoff_s=st.floats(0.01, 600),
    backoff_s_max=st.floats(600, 3_600),
    attempts_max=st.integers(0, 5_000),
)
traces = st.one_of(st.sampled_from(GAPS), st.sampled_from(HARMLESS), st.text())
statuses = st.none() | st.builds(
    ConnectorStatus,
    name=st.just("c"),
    state=st.sampled_from(["RUNNING", "FAILED", "PAUSED", "UNASSIGNED"]),
    worker=st.just("w"),
    tasks=st.lists(
        st.builds(
            TaskStatus, id=st.just(0), state=st.sampled_from(["RUNNING", "FAILED"]), worker=st.just("w"), trace=traces
        ),
        max_size=2,
    ).map(tuple),
    trace=st.just("") | traces,
)


@given(statuses, mendings, st.floats(-1e6, 1e7))
def test_it_restarts_only_what_failed_without_a_gap_and_after_its_pause(status, mending, now) -> None:
    decision = decide(status, mending, now)
    if decision.restart:
        assert status is not None
        assert status.failed
        assert not any(gap in trace for trace in status.traces for gap in GAPS)
        assert mending.attempts < mending.attempts_max
        assert now - mending.restarted_at >= mending.pause_s()
        assert decision.mending == replace(mending, attempts=mending.attempts + 1, restarted_at=now)
    else:
        assert decision.mending in (mending, replace(mending, attempts=0))
    assert not (decision.restart and decision.fatal)


@given(mendings)
def test_pauses_grow_up_to_their_limit(mending: Mending) -> None:
    later = replace(mending, attempts=mending.attempts + 1)
    assert 0 <= mending.pause_s() <= later.pause_s() <= mending.backoff_s_max
    if 0 < later.pause_s() < mending.backoff_s_max and mending.attempts:
        assert later.pause_s() == pytest.approx(2 * mending.pause_s())


def test_a_connector_that_never_recovers_is_tried_so_often_and_no_more() -> None:
    mending, restarts, now = Mending(attempts_max=10), [], 0.0
    while now < 10_000:
        decision = decide(failed(), mending, now)
        mending = decision.mending
        restarts += [now] if decision.restart else []
        now += 1.0
    assert len(restarts) == 10
    pauses = [after - before for before, after in pairwise(restarts)]
    assert pauses == sorted(pauses) == [1, 2, 4, 8, 16, 32, 60, 60, 60]
