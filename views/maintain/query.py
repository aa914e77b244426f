"""The streaming query under the live groups: Spark's micro-batches of whole transactions, as fast as they come.

Its offsets are not what recovery rests on (runner.py), so Spark writes them down in the background and in memory, which
takes 100 ms out of every epoch.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from cdc.addresses import KafkaAddress, Source
from cdc.position import Position
from cdc.spark_source import options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

IDLE_MS_MAX: Final = 100
_OFFSET: Final = re.compile(r'"offset":\s*(\d+)')
_ASYNC: Final = {
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "30000",
    "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
}
_MEMORY: Final = Path("/dev/shm")


class _Listener(StreamingQueryListener):
    def __init__(self) -> None:
        self.last: dict[str, float] = {}

    def onQueryStarted(self, event: Any) -> None: ...

    def onQueryIdle(self, event: Any) -> None: ...

    def onQueryTerminated(self, event: Any) -> None: ...

    def onQueryProgress(self, event: Any) -> None:
        progress = event.progress
        self.last = {
            **{f"{name}_ms": float(ms) for name, ms in progress.durationMs.items()},
            "input_rows_per_s": float(progress.inputRowsPerSecond),
            "processed_rows_per_s": float(progress.processedRowsPerSecond),
        }


class MaintainQuery:
    def __init__(
        self,
        spark: SparkSession,
        kafka: KafkaAddress,
        source: Source,
        start: Position,
        on_epoch: Callable[[int], None],
        records_per_epoch_max: int,
    ) -> None:
        self._on_epoch = on_epoch
        self._streams = spark.streams
        self._listener = _Listener()
        self._streams.addListener(self._listener)
        self._started = threading.Event()
        in_memory = _MEMORY if _MEMORY.is_dir() else None
        self._checkpoint = Path(tempfile.mkdtemp(prefix="headwater-query-", dir=in_memory))
        stream = (
            spark.readStream.format("headwater")
            .options(**options(kafka, source))
            .option("startingPosition", str(start))
            .option("rows_per_epoch_max", str(records_per_epoch_max))
            .option("idle_ms_max", str(IDLE_MS_MAX))
            .load()
        )
        self._query: StreamingQuery = (
            stream.writeStream.foreachBatch(self._epoch)
            .queryName(f"headwater-{source.name}")
            .option("checkpointLocation", str(self._checkpoint))
            .options(**_ASYNC)
            .trigger(processingTime="0 seconds")
            .start()
        )
        self._started.set()

    @property
    def is_active(self) -> bool:
        return bool(self._query.isActive)

    @property
    def failure(self) -> Exception | None:
        found: Any = self._query.exception()
        return found if isinstance(found, Exception) else None

    @property
    def measured(self) -> dict[str, float]:
        """What Spark said of the last trigger: milliseconds by part, rows a second."""
        return self._listener.last

    def close(self) -> None:
        self._query.stop()
        self._streams.removeListener(self._listener)
        shutil.rmtree(self._checkpoint, ignore_errors=True)

    def _epoch(self, _records: DataFrame, _number: int) -> None:
        self._started.wait()
        self._on_epoch(self._end())

    def _end(self) -> int:
        """Where the epoch that is being run ends. Spark tells it to nobody else before the epoch is over."""
        running: Any = self._query
        text = running._jsq.streamingQuery().getLatestExecutionContext().endOffsets().toString()
        found = _OFFSET.search(text)
        assert found is not None, text
        return int(found.group(1))
