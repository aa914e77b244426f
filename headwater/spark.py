"""The Spark session that every streaming query of Headwater runs in.

Local by default, on loopback, without a web page, with as few moving parts as a small machine wants: epochs are small,
so few shuffle partitions and no adaptive re-planning; Python workers are kept, and with them their connections.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cdc.spark_source import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHUFFLE_PARTITIONS: Final = 2
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LOG4J: Final = Path(__file__).with_name("spark-log4j2.properties")
_CONF: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.worker.reuse": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # What is kept of finished epochs, in memory and in the checkpoint: enough to look back, not more.
    "spark.sql.streaming.numRecentProgressUpdates": "100",
    "spark.sql.streaming.minBatchesToRetain": "100",
    "spark.sql.streaming.metricsEnabled": "false",
}


def session(
    *,
    name: str = "headwater",
    master: str = "local[2]",
    driver_memory_mb: int = 1024,
    extra: Mapping[str, str] | None = None,
) -> SparkSession:
    """The process's session, started if there is none yet, with the format "headwater" registered.

    `extra` goes on top of Headwater's own settings; options of Java are added to them. Stop it with `.stop()`.
    """
    from pyspark.sql import SparkSession

    local = master.startswith("local")
    if local:
        # Read when the JVM starts: without it Spark asks the machine for an address that may not be reachable.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # The workers are this very Python, with this very installation, whatever `python3` may be on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in _conf(local, driver_memory_mb, extra or {}).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def _conf(local: bool, driver_memory_mb: int, extra: Mapping[str, str]) -> dict[str, str]:
    """An address of loopback is right for a local driver only: executors elsewhere must reach it."""
    own = {key: value for key, value in _CONF.items() if local or not key.startswith("spark.driver.")}
    java = f"-Dlog4j2.configurationFile={_LOG4J.as_uri()} {extra.get(JAVA_OPTIONS, '')}".rstrip()
    return {**own, "spark.driver.memory": f"{driver_memory_mb}m", **extra, JAVA_OPTIONS: java}
