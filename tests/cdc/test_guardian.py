"""The slot as Postgres shows it, the forecast, the verdicts, and the metrics made of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from cdc.addresses import PostgresAddress, Source
from cdc.errors import SourceError
from cdc.guardian import (
    Forecast,
    GuardianCollector,
    Observation,
    Sample,
    SlotGuardian,
    SlotState,
    forecast,
    judge,
    observe,
)
from cdc.position import Lsn
from cdc.slots import refuse_in_use
from headwater.migrate import migrate

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MB = 1 << 20
HEALTHY = SlotState(
    name="headwater_test",
    observed_at=NOW,
    current_lsn=Lsn(100 * MB),
    exists=True,
    active=True,
    active_pid=42,
    wal_status="reserved",
    restart_lsn=Lsn(90 * MB),
    confirmed_flush_lsn=Lsn(99 * MB),
    lag_bytes=MB,
    retained_bytes=10 * MB,
    safe_wal_bytes=90 * MB,
    wal_keep_max_bytes=100 * MB,
    lag_s=0.5,
)


def samples(rate: float, count: int = 10, start: int = 0) -> list[Sample]:
    return [Sample(100.0 + 2 * n, Lsn(n), int(start + rate * 2 * n)) for n in range(count)]


@given(rate=st.integers(1, 10**9), count=st.integers(2, 50), start=st.integers(0, 10**12))
def test_forecast_of_steady_growth_is_exact(rate: int, count: int, start: int) -> None:
    seen = samples(rate, count, start)
    limit = seen[-1].retained_bytes + 60 * rate
    found = forecast(seen, limit)
    assert found.bytes_per_s == pytest.approx(rate, rel=1e-6)
    assert found.seconds_to_limit == pytest.approx(60, rel=1e-6)


@given(st.lists(st.integers(0, 10**15), max_size=30), st.none() | st.integers(0, 10**15))
def test_forecast_never_fails_and_never_looks_back(retained: list[int], limit: int | None) -> None:
    seen = [Sample(float(n), Lsn(n), value) for n, value in enumerate(retained)]
    found = forecast(seen, limit)
    if found.seconds_to_limit is not None:
        assert limit is not None
        assert found.seconds_to_limit >= 0
        assert found.seconds_to_limit == 0 or found.bytes_per_s > 0


def test_forecast_without_growth_or_limit_has_no_end() -> None:
    assert forecast(samples(0), 10**9) == Forecast(0.0, None)
    assert forecast(samples(-5, start=1000), 10**9).seconds_to_limit is None
    assert forecast(samples(5), None).seconds_to_limit is None
    assert forecast([], 10) == Forecast(0.0, None)
    assert forecast([Sample(1.0, Lsn(0), 5), Sample(1.0, Lsn(0), 9)], 100) == Forecast(0.0, None)
    assert forecast(samples(0, start=50), 50).seconds_to_limit == 0.0


def test_a_healthy_slot_is_ok() -> None:
    assert [finding.level for finding in judge(HEALTHY, "RUNNING", Forecast(10.0, 1e6))] == ["ok"]


@pytest.mark.parametrize(
    ("state", "connector", "outlook", "level", "name", "text"),
    [
        (replace(HEALTHY, exists=False, active=False), "RUNNING", None, "fail", "slot missing", "headwater_test"),
        (replace(HEALTHY, wal_status="lost", active=False), "RUNNING", None, "fail", "slot lost", "log was removed"),
        (replace(HEALTHY, invalidation_reason="idle_timeout"), "RUNNING", None, "fail", "slot lost", "idle_timeout"),
        (replace(HEALTHY, wal_status="unreserved"), "RUNNING", None, "fail", "wal over its cap", "checkpoint"),
        (HEALTHY, "RUNNING", Forecast(1e4, 1800.0), "warn", "wal filling up", "30 minutes left"),
        (HEALTHY, "RUNNING", Forecast(1e6, 300.0), "fail", "wal filling up", "5 minutes left"),
        (replace(HEALTHY, active=False), "RUNNING", None, "warn", "slot inactive", "nobody reads"),
        (
            replace(HEALTHY, active=False, inactive_since=NOW - timedelta(seconds=301)),
            "RUNNING",
            None,
            "fail",
            "slot inactive",
            "since 2026-05-01T11:54:59+00:00",
        ),
        (replace(HEALTHY, lag_s=61.0), "RUNNING", None, "warn", "capture behind", "61 s"),
        (HEALTHY, "FAILED", None, "fail", "connector failed", "FAILED"),
        (HEALTHY, "MISSING", None, "fail", "connector missing", "no such connector"),
        (HEALTHY, "PAUSED", None, "warn", "connector paused", "PAUSED"),
        (HEALTHY, "UNASSIGNED", None, "warn", "connector not running", "UNASSIGNED"),
    ],
)
def test_verdicts(
    *, state: SlotState, connector: str, outlook: Forecast | None, level: str, name: str, text: str
) -> None:
    (finding,) = judge(state, connector, outlook)
    assert (finding.level, finding.name) == (level, name)
    assert text in finding.detail
    assert finding.hint


def test_the_worst_comes_first() -> None:
    state = replace(HEALTHY, active=False, wal_status="unreserved")
    assert [f.name for f in judge(state, "PAUSED")] == ["wal over its cap", "connector paused"]
    assert [f.name for f in judge(state, "UNASSIGNED")] == [
        "wal over its cap",
        "connector not running",
        "slot inactive",
    ]


def test_running_capture_is_not_taken_apart() -> None:
    refuse_in_use(replace(HEALTHY, active=False))
    with pytest.raises(SourceError, match="capture is running"):
        refuse_in_use(HEALTHY)


def test_metrics_of_the_last_observation() -> None:
    collector = GuardianCollector()
    registry = CollectorRegistry()
    registry.register(collector)
    test = {"source": "test"}
    assert registry.get_sample_value("headwater_slot_lag_bytes", test) is None
    collector.record(Source("test"), Observation(HEALTHY, Forecast(5.0, None), "FAILED"))
    for name, value in {
        "slot_lag_bytes": MB,
        "slot_retained_wal_bytes": 10 * MB,
        "slot_active": 1,
        "slot_lag_seconds": 0.5,
        "slot_retained_wal_bytes_per_second": 5,
        "slot_seconds_to_limit": None,
    }.items():
        assert registry.get_sample_value(f"headwater_{name}", test) == value, name
    states = {"FAILED": 1, "RUNNING": 0}
    for state, value in states.items():
        assert registry.get_sample_value("headwater_connector_state", {**test, "state": state}) == value
    collector.record(Source("test"), Observation(replace(HEALTHY, active=False), Forecast(5.0, 7.0), "RUNNING"))
    assert registry.get_sample_value("headwater_slot_active", test) == 0
    assert registry.get_sample_value("headwater_slot_seconds_to_limit", test) == 7
    assert b"# HELP headwater_slot_lag_bytes " in generate_latest(registry)


@pytest.fixture
def source(postgres: PostgresAddress) -> Iterator[Source]:
    found = Source(f"g{uuid.uuid4().hex[:8]}")
    yield found
    with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
        conn.execute(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = %s", [found.slot]
        )


def write(conn: psycopg.Connection) -> None:
    conn.execute("select pg_logical_emit_message(true, 'test', repeat('x', 100000))")
    conn.execute("select pg_switch_wal()")


def confirm(conn: psycopg.Connection, source: Source) -> None:
    conn.execute("select pg_replication_slot_advance(%s, pg_current_wal_lsn())", [source.slot])


def test_observing_a_real_slot(postgres: PostgresAddress, source: Source) -> None:
    with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
        absent = observe(conn, source)
        assert not absent.exists
        assert (absent.lag_bytes, absent.lag_s) == (None, None)
        conn.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [source.slot])
        write(conn)
        seen = observe(conn, source)
        assert (seen.exists, seen.active, seen.wal_status, seen.lost) == (True, False, "reserved", False)
        assert seen.restart_lsn is not None
        assert seen.confirmed_flush_lsn is not None
        assert seen.lag_bytes == seen.current_lsn - seen.confirmed_flush_lsn > 100_000
        assert seen.retained_bytes == seen.current_lsn - seen.restart_lsn >= seen.lag_bytes
        assert seen.inactive_since is not None
        assert seen.lag_s is None, "no heartbeat and no history: not known"
        keep_max = conn.execute("select pg_size_bytes(current_setting('max_slot_wal_keep_size'))").fetchone()
        assert seen.wal_keep_max_bytes == (keep_max[0] if keep_max and keep_max[0] >= 0 else None)


def test_lag_in_seconds_comes_from_history_or_from_the_heartbeat(postgres: PostgresAddress, source: Source) -> None:
    migrate(postgres)
    with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
        conn.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [source.slot])
        conn.execute("update headwater.heartbeat set beat_at = clock_timestamp() - interval '1 hour'")
        write(conn)
        by_beat = observe(conn, source).lag_s
        assert by_beat is not None
        assert 3600 <= by_beat < 3700
        confirmed = observe(conn, source).confirmed_flush_lsn
        assert confirmed is not None
        then = datetime.now(UTC).timestamp() - 500
        history = [Sample(then - 900, Lsn(confirmed.value - 1), 0), Sample(then, confirmed, 0)]
        by_history = observe(conn, source, history).lag_s
        assert by_history is not None
        assert 490 < by_history < 600


def test_guardian_keeps_a_bounded_history(postgres: PostgresAddress, source: Source) -> None:
    guardian = SlotGuardian(source, samples_max=3)
    with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
        conn.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [source.slot])
        for _ in range(5):
            write(conn)
            seen = guardian.observe(conn, "RUNNING")
        assert seen.connector_state == "RUNNING"
        assert seen.forecast.bytes_per_s > 0
        assert seen.state.lag_s is not None, "older than the oldest sample: at least that old"
        assert len(guardian._samples) == 3
        behind = seen.state.lag_bytes
        confirm(conn, source)
        after = guardian.observe(conn).state
        assert after.lag_bytes is not None
        assert behind is not None
        assert after.lag_bytes < behind


def test_an_observation_is_one_statement(postgres: PostgresAddress, source: Source) -> None:
    migrate(postgres)
    with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
        conn.execute("begin")
        seen = observe(conn, source)
        assert not seen.exists
        assert conn.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS


def test_a_lost_connection_is_told_so(postgres: PostgresAddress, source: Source) -> None:
    with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
        with psycopg.connect(postgres.conninfo(), autocommit=True) as other:
            other.execute("select pg_terminate_backend(%s)", [conn.info.backend_pid])
        with pytest.raises(SourceError, match="lost the source"):
            observe(conn, source)
