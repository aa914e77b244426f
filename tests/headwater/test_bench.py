"""The benchmarks: their arithmetic on known numbers, the counting of a replication stream on canned bytes, the shape of
the capture bench's result on a tiny run. No figure is judged here: figures depend on the machine.
"""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.capture import Capture
from cdc.connect import ConnectClient
from cdc.errors import ConfigurationError
from cdc.position import Lsn
from cdc.reader import Raw
from headwater import cli
from headwater.bench import capture as bench
from headwater.bench import conditions, log_rate, place, workload
from headwater.bench.commit_latency import PAUSE_S_MAX, PAUSE_S_MIN, Committed, Seen, judge, pauses
from headwater.bench.figures import Latencies, Rate, median_rows_per_s, percentile
from headwater.bench.pgoutput import Tally, nothing_flushed, wants_answer
from headwater.bench.progress import Silent
from headwater.deployment import Deployment
from headwater.plain import plain
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Arithmetic.


def test_percentiles_are_measured_values_by_nearest_rank() -> None:
    ordered = [float(n) for n in range(1, 101)]
    assert [percentile(ordered, share) for share in (0, 1, 50, 99, 100)] == [1, 1, 50, 99, 100]
    assert percentile([1, 2, 3, 4, 5], 99) == 5
    assert percentile([1, 2, 3, 4, 5], 50) == 3
    with pytest.raises(ConfigurationError):
        percentile([], 50)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 100))
def test_at_least_the_share_lies_at_or_below_its_percentile(samples: list[float], share: float) -> None:
    ordered = sorted(samples)
    found = percentile(ordered, share)
    assert found in ordered
    assert sum(one <= found for one in ordered) >= len(ordered) * share / 100 - 1e-9
    assert sum(one < found for one in ordered) <= len(ordered) * share / 100


def test_latencies_need_no_order() -> None:
    assert Latencies.of([3.0, 1.0, 2.0]) == Latencies(3, 1.0, 2.0, 3.0, 3.0, 3.0)


def test_rates_are_medians_of_the_rounds() -> None:
    assert Rate(100, 2.0).rows_per_s == 50
    assert Rate(0, 0.0).rows_per_s == 0
    assert median_rows_per_s([Rate(10, 1), Rate(1000, 1), Rate(20, 1)]) == 20


def test_a_backlog_is_cut_into_whole_transactions() -> None:
    assert list(workload.transaction_sizes(2_500)) == [1_000, 1_000, 500]
    assert list(workload.transaction_sizes(7)) == [7]


def test_pauses_are_random_within_bounds_and_the_same_every_time() -> None:
    drawn = list(pauses(200))
    assert all(PAUSE_S_MIN <= one <= PAUSE_S_MAX for one in drawn)
    assert len(set(drawn)) == 200
    assert drawn == list(pauses(200))


def test_a_commit_is_timed_from_its_return_to_its_end_in_hand() -> None:
    done = [Committed(xid=7, at=10.0, at_ms=5_000.0), Committed(xid=8, at=11.0, at_ms=6_000.0)]
    seen = {7: Seen(10.030, 5_020), 8: Seen(11.010, 6_004), 9: Seen(11.5, 7_000)}
    found = judge(done, seen)
    assert (found.to_log.min_ms, found.to_log.max_ms) == (pytest.approx(10), pytest.approx(30))
    assert (found.to_written.min_ms, found.to_written.max_ms) == (4, 20)


# The replication stream.


def wal(message: bytes) -> bytes:
    return b"w" + struct.pack(">qqq", 1, 2, 3) + message


def commit(lsn: int) -> bytes:
    return wal(b"C" + struct.pack(">bqqq", 0, lsn, lsn + 8, 0))


def test_rows_are_counted_until_the_commit_that_was_asked_for() -> None:
    stream = [
        wal(b"B" + bytes(20)), wal(b"R" + bytes(30)), wal(b"I" + bytes(99)), wal(b"U" + bytes(9)), commit(100),
        b"k" + struct.pack(">qqb", 1, 2, 1),
        wal(b"B" + bytes(20)), wal(b"D" + bytes(9)), wal(b"T" + bytes(9)), wal(b"M" + bytes(9)), commit(200),
    ]  # fmt: skip
    tally = Tally(Lsn(200))
    for number, message in enumerate(stream, 1):
        assert not tally.done
        tally.take(memoryview(message))
        if number == 5:
            assert (tally.rows, tally.commits) == (2, 1)
    assert tally.done
    assert (tally.rows, tally.commits) == (3, 2)
    assert tally.size_bytes == sum(len(message) - 25 for message in stream if message[:1] == b"w")


def test_a_keepalive_is_answered_when_it_asks() -> None:
    assert wants_answer(b"k" + struct.pack(">qqb", 1, 2, 1))
    assert not wants_answer(b"k" + struct.pack(">qqb", 1, 2, 0))
    assert not wants_answer(wal(b"I\x01"))
    answer = nothing_flushed()
    assert len(answer) == 34
    assert answer[:25] == b"r" + bytes(24)


# What the log rate is judged by.

BEGIN = b'{"status":"BEGIN","id":"7:1","event_count":null,"data_collections":null,"ts_ms":1}'
END = b'{"status":"END","id":"7:4096","event_count":1,"data_collections":[],"ts_ms":1}'


def test_commits_and_rows_are_told_apart_in_the_tail() -> None:
    records = [[Raw(5, 0, None, BEGIN), Raw(6, 0, None, b'{"before":null}')], [Raw(7, 0, None, END)]]
    assert log_rate.commits_among(records) == [Lsn(4096)]
    assert log_rate.rows_among(records) == 1


def test_rows_that_were_there_at_first_sight_do_not_count() -> None:
    assert log_rate.rate_of(1_000, 200, 3.0, 5.0) == Rate(800, 2.0)
    assert log_rate.rate_of(100, 100, 3.0, 3.0) == Rate(100, 3.0)
    assert log_rate.rate_of(100, 101, 3.0, 3.5) == Rate(100, 3.5)


# Conditions.


def test_servers_are_recognised_by_their_command_lines() -> None:
    server_of = conditions.server_of
    assert server_of(["/usr/bin/java", "-Xmx512m", "kafka.Kafka", "server.properties"]) == "kafka"
    assert server_of(["java", "org.apache.kafka.connect.cli.ConnectDistributed", "x"]) == "connect"
    assert server_of(["/opt/bin/postgres", "-D", "/data"]) == "postgres"
    assert server_of(["postgres: walsender"]) is None
    assert server_of(["vim", "kafka.Kafka"]) is None
    assert server_of([]) is None


def test_a_stack_of_its_own_has_the_settings_pace_and_no_server_of_the_user() -> None:
    theirs = Settings.model_validate(
        {"kafka": {"bootstrap": "kafka.example.com:9092"}, "capture": {"poll_interval_ms": 7}}
    )
    own = place.embedded_only(theirs, Path("elsewhere"))
    assert own.kafka.embedded
    assert own.capture.poll_interval_ms == 7
    assert own.data_folder == Path("elsewhere")


def test_without_a_stack_here_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["bench", "capture", "--here", "--json"]) == cli.EXIT_FAILED
    told = json.loads(capsys.readouterr().out)
    assert told["error"]["fact"] == "the embedded stack is not running"
    assert told["error"]["hint"] == "headwater up"


@pytest.mark.parametrize("rates", ["fast", "50,", "-1"])
def test_rates_are_numbers(rates: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["bench", "news", "--rates", rates]) == 2
    assert "no list of rates" in capsys.readouterr().err


# The whole, small.

FIGURES = (
    "log_rows_per_s",
    "raw_slot_rows_per_s",
    "raw_slot_bytes_per_s",
    "raw_slot_peek_rows_per_s",
    "log_to_raw_ratio",
    "spark_rows_per_s",
    "end_to_end_rows_per_s",
    "end_to_end_write_rows_per_s",
    "write_rows_per_s",
    "connector_start_ms",
    "commit_to_log_min_ms",
    "commit_to_log_p50_ms",
    "commit_to_log_p90_ms",
    "commit_to_log_p99_ms",
    "commit_to_log_max_ms",
    "commit_to_written_p50_ms",
    "commit_to_written_p99_ms",
)


@pytest.mark.stack
@pytest.mark.spark
def test_a_tiny_run_has_every_figure_and_leaves_nothing_behind(deployment: Deployment, spark: SparkSession) -> None:
    plan = bench.CapturePlan(rows=2_000, commits=5, rounds=1, background_rows_per_s=50, own_stack=False, warm_up=False)
    machine = conditions.machine((), "")
    with place.fresh_source(deployment, Silent()) as captured:
        found = json.loads(
            json.dumps(plain(bench.run(bench.Bench(deployment, captured, spark, machine, Silent()), plan)))
        )
    assert all(isinstance(found[name], int | float) and found[name] > 0 for name in FIGURES)
    (one,) = found["rounds"]
    assert one["log_rows_per_s"] == found["log_rows_per_s"]
    assert found["commit_to_log_min_ms"] <= found["commit_to_log_p50_ms"] <= found["commit_to_log_p99_ms"]
    under = found["conditions"]
    assert (under["rows"], under["commits"], under["rounds"], under["rows_per_transaction"]) == (2_000, 5, 1, 1_000)
    assert 250 <= under["row_bytes"] <= 350
    assert under["record_bytes"] > under["row_bytes"]
    assert under["versions"]["postgres"].split(".")[0].isdecimal()
    assert set(under["machine"]) >= {"cores", "memory_bytes", "python", "java", "load_average_1m", "at"}
    assert remains(deployment, captured) == []


def remains(deployment: Deployment, captured: Capture) -> list[str]:
    """What is left of a bench, anywhere."""
    name = captured.source.name
    with ConnectClient(deployment.connect) as client:
        connectors = [connector for connector in client.connectors() if name in connector]
    with psycopg.connect(replace(deployment.postgres, database="postgres").conninfo()) as conn:
        found = conn.execute(
            "select datname from pg_database where datname = %(name)s union all"
            " select slot_name from pg_replication_slots where slot_name like '%%' || %(name)s || '%%' union all"
            " select rolname from pg_roles where rolname like %(name)s || '%%'",
            {"name": name},
        ).fetchall()
    return [row[0] for row in found] + connectors + place.topics_of(captured)
