"""The status as Prometheus metrics; the slot's own come from the guardian."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from headwater.http.server import PageServer
    from headwater.status import Status


class StatusCollector(Collector):
    def __init__(self, server: PageServer) -> None:
        self._server = server

    def collect(self) -> Iterable[Metric]:
        status = self._server.status
        if status is None:
            return
        healthy = GaugeMetricFamily("headwater_healthy", "1 while nothing fails", labels=["source"])
        healthy.add_metric([status.source], float(status.healthy))
        yield healthy
        up = GaugeMetricFamily("headwater_server_up", "1 while the server runs", labels=["server"])
        for server in status.servers:
            up.add_metric([server.name], float(server.running))
        yield up
        gaps = GaugeMetricFamily("headwater_gaps", "Known gaps in the log of this era", labels=["source"])
        gaps.add_metric([status.source], len(status.gaps))
        yield gaps
        yield from _views(status)
        if status.log is None:
            return
        end = GaugeMetricFamily("headwater_log_end_offset", "The offset the next record gets", labels=["topic"])
        end.add_metric([status.log.topic], status.log.end_offset)
        yield end
        if status.log.last_commit_delay_ms is not None and status.log.last_commit_at is not None:
            delay = GaugeMetricFamily(
                "headwater_log_commit_delay_seconds", "Last commit: from Postgres to the log", labels=["topic"]
            )
            delay.add_metric([status.log.topic], status.log.last_commit_delay_ms / 1000)
            yield delay
            at = GaugeMetricFamily(
                "headwater_log_last_commit_timestamp_seconds",
                "When the log's last transaction committed",
                labels=["topic"],
            )
            at.add_metric([status.log.topic], status.log.last_commit_at.timestamp())
            yield at


def _sinks(status: Status) -> Iterable[Metric]:
    labels = ["view", "sink"]
    up = GaugeMetricFamily("headwater_sink_up", "1 while the sink takes changes", labels=[*labels, "state"])
    left = GaugeMetricFamily("headwater_sink_behind_changes", "Published, and not yet in the sink", labels=labels)
    hops = GaugeMetricFamily(
        "headwater_sink_lag_milliseconds", "What the last commit took, hop by hop", labels=[*labels, "hop"]
    )
    refused = CounterMetricFamily("headwater_sink_refused", "Changes that the sink would not take", labels=labels)
    held = GaugeMetricFamily("headwater_sink_incomplete_keys", "Keys that open dead letters hold", labels=labels)
    for sink in status.views.sinks:
        named = [sink.view, sink.sink]
        up.add_metric([*named, sink.state], float(sink.state in ("riding", "following")))
        left.add_metric(named, sink.behind_changes)
        refused.add_metric(named, sink.refused)
        held.add_metric(named, sink.incomplete)
        for hop, took_ms in (("view", sink.view_ms), ("sink", sink.sink_ms)):
            if took_ms is not None:
                hops.add_metric([*named, hop], took_ms)
    yield from (up, left, hops, refused, held)
    wrong = GaugeMetricFamily(
        "headwater_wrong_rows", "Rows known to be wrong, in a view or a sink", labels=["view", "place"]
    )
    for found in status.views.wrong:
        wrong.add_metric([found.view, found.place], found.rows)
    yield wrong
    yield from _alerts(status)


def _alerts(status: Status) -> Iterable[Metric]:
    differing = GaugeMetricFamily(
        "headwater_alerts_differing",
        "Events missed or wrong that sweeps found, until a person acknowledges them",
        labels=["view", "kind"],
    )
    broken = GaugeMetricFamily(
        "headwater_alerts_broken", "Saved searches that do not fit their view any more", labels=["view"]
    )
    swept = GaugeMetricFamily("headwater_alerts_swept_timestamp_seconds", "The last sweep", labels=["view"])
    for line in status.views.alerts:
        differing.add_metric([line.view, "missed"], line.missed)
        differing.add_metric([line.view, "wrong"], line.wrong)
        broken.add_metric([line.view], line.broken)
        if line.swept_at_us:
            swept.add_metric([line.view], line.swept_at_us / 1e6)
    yield from (differing, broken, swept)


def _views(status: Status) -> Iterable[Metric]:
    live = GaugeMetricFamily("headwater_view_live", "1 while the view is kept", labels=["view", "state"])
    behind = GaugeMetricFamily(
        "headwater_view_behind_seconds", "Since the last commit that the view includes", labels=["view"]
    )
    stale = GaugeMetricFamily(
        "headwater_view_stale", "1 while the view lacks changes or is late", labels=["view", "gap"]
    )
    for view in status.views.views:
        live.add_metric([view.name, view.state], float(view.state == "live"))
        stale.add_metric([view.name, str(view.stale is not None and view.stale.is_gap)], float(view.stale is not None))
        if view.behind_s is not None:
            behind.add_metric([view.name], view.behind_s)
    yield from (live, behind, stale)
    yield from _sinks(status)
    epochs = status.views.epochs
    for name, help_, value in (
        ("epochs", "Epochs run", epochs.count),
        ("epoch_records", "Records of the log that went through the views", epochs.records),
        ("view_changes", "Changes of views published", epochs.changes),
    ):
        counter = CounterMetricFamily(f"headwater_{name}", help_, labels=["source"])
        counter.add_metric([status.source], value)
        yield counter
    took = GaugeMetricFamily("headwater_epoch_milliseconds", "What the last epochs took (median)", labels=["part"])
    took.add_metric(["job"], epochs.job_ms)
    took.add_metric(["publish"], epochs.publish_ms)
    yield took
    spark = GaugeMetricFamily("headwater_streaming_query", "What Spark said of its last trigger", labels=["what"])
    for what, number in sorted(epochs.spark.items()):
        spark.add_metric([what], number)
    yield spark
    memory = GaugeMetricFamily("headwater_maintainer_memory_bytes", "Resident", labels=["process"])
    for process, size in (status.views.memory_mb or {}).items():
        memory.add_metric([process], size * (1 << 20))
    yield memory
