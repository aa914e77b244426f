"""From a commit to the view's topic: single commits, timed one by one, while others flow."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from confluent_kafka import TopicPartition

from cdc.capture import Capture
from cdc.catalog_reader import describe
from cdc.errors import ViewError
from cdc.kafka import Use, lease
from cdc.postgres import connect
from cdc.topics import topic_state
from headwater.bench.figures import Latencies
from headwater.bench.view_workload import TABLES, Shop, flow
from views.maintain.maintainer import Limits, Maintainer
from views.maintain.publisher import view_topic
from views.maintain.registry import Registry, ViewState, Wanted, WantedView

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WARM_UP: Final = 20
PAUSE_S: Final = 0.05
LIVE_S_MAX: Final = 900.0
SEEN_S_MAX: Final = 60.0
PROBED: Final = 1
"""The order that the single commits change; the others leave it alone."""


def measure(
    spark: SparkSession, capture: Capture, shop: Shop, definition: str, commits: int, rate_per_s: int, limits: Limits
) -> tuple[Latencies, dict[str, float]]:
    """The latencies, and what the parts of an epoch took meanwhile (medians)."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-views-") as folder:
        registry = Registry(Path(folder))
        with connect(capture.postgres) as conn:
            tables = describe(conn, TABLES)
        registry.want(Wanted({"order_card": WantedView(definition, tables, time.time(), "bench")}))
        maintainer = Maintainer(spark, capture.kafka, capture.source, registry, limits)
        thread = threading.Thread(target=maintainer.run, name="maintainer", daemon=True)
        thread.start()
        try:
            _live(registry, thread)
            with flow(capture.postgres, shop.rows, rate_per_s):
                took = _probes(capture, shop, commits + WARM_UP)[WARM_UP:]
            epochs = registry.state().epochs
        finally:
            maintainer.stop.set()
            thread.join(60)
    parts = {"job": epochs.job_ms, "publish": epochs.publish_ms, **epochs.spark}
    return Latencies.of(took), parts


def _live(registry: Registry, thread: threading.Thread) -> None:
    deadline = time.monotonic() + LIVE_S_MAX
    while not any(view.state is ViewState.LIVE for view in registry.state().views.values()):
        if not thread.is_alive() or time.monotonic() > deadline:
            raise ViewError("the view did not become live", hint="headwater bench views --rows 100000")
        time.sleep(0.2)


def _probes(capture: Capture, shop: Shop, count: int) -> list[float]:
    topic = view_topic(capture.source, "order_card")
    took: list[float] = []
    with lease(capture.kafka, Use.LISTEN) as consumer:
        consumer.assign([TopicPartition(topic, 0, topic_state(capture.kafka, topic).high)])
        for number in range(count):
            note = f"probe {number}"
            began = time.monotonic()
            shop.conn.execute("update orders set note = %s where id = %s", [note, PROBED])
            committed = time.monotonic()
            while True:
                message = consumer.poll(SEEN_S_MAX)
                if message is None or message.error():
                    raise ViewError("a commit did not reach the view's topic", detail=note, hint="headwater status")
                value = message.value()
                if value and b'"id":1,' in value and msgspec.json.decode(value)["after"]["note"] == note:
                    break
            took.append((time.monotonic() - (began + committed) / 2) * 1000)
            time.sleep(PAUSE_S)
    return took
