"""The bench of views: its object has every figure that is promised, and their arithmetic. No figure is judged."""

from __future__ import annotations

from headwater.bench import rebuild
from headwater.bench import views as bench
from headwater.bench.figures import Latencies
from headwater.bench.view_workload import CARD, SALES, SPENT
from views.definition import parse

PROMISED = {
    "growth_ratio", "catch_up_rows_per_s", "visible_p50_ms", "visible_p99_ms", "build_1m_s", "full_recompute_s",
    "postgres_refresh_s", "rss_mb",
}  # fmt: skip


def test_every_promised_figure_is_there() -> None:
    small = bench.Sized(10, 1.0, 1.0, (100.0, 300.0, 100.0))
    large = bench.Sized(1000, 61.25, 70.0, (150.0, 140.0, 160.0))
    latency = Latencies.of([float(n) for n in range(1, 101)])
    memory = bench.Memory({"jvm": 500.0, "workers": 900.0}, 1399.6)
    told = bench.report(small, large, 12_345.67, latency, {"job": 80.0}, 9.123, 0.456, memory)
    assert set(told) >= PROMISED
    assert told["growth_ratio"] == 1.5
    assert (told["visible_p50_ms"], told["visible_p99_ms"]) == (50.0, 99.0)
    assert (told["build_1m_s"], told["full_recompute_s"], told["rss_mb"]) == (61.2, 9.12, 1400)


def test_its_views_are_views() -> None:
    assert [view.name for text in (CARD, SALES, SPENT) for view in parse(text)] == ["order_card", "sales", "spent"]


def test_what_is_rebuilt_are_views_of_the_index() -> None:
    for wanted in (rebuild.ORDERS, rebuild.PAGES):
        [view] = parse(wanted.definition)
        assert view.name == wanted.view
        assert wanted.definition.count("sinks = 'search'") == 1
