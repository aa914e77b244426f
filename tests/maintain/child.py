"""Keeps views in a process of its own, until it is told to stop or killed: `python -m tests.maintain.child '{…}'`.

Many are started and none lives long, so Java compiles little, and reads its classes from an archive (`archived`).
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from cdc.addresses import KafkaAddress, PostgresAddress, Source
from headwater.spark import JAVA_OPTIONS, session
from headwater.views.checking import check, check_computed
from tests.sinks.places import kind_at
from views.maintain import jobs
from views.maintain.maintainer import Limits, Maintainer
from views.maintain.registry import Registry
from views.rebuild import Checked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def archived(archive: Path) -> Path:
    """Makes the archive, in a process that starts Spark and ends."""
    subprocess.run(
        [sys.executable, "-m", __name__, json.dumps({"archive": str(archive)})], check=True, capture_output=True
    )
    return archive


def started(java: str) -> SparkSession:
    return session(name="headwater-child", driver_memory_mb=512, extra={JAVA_OPTIONS: f"{JAVA} {java}"})


def main() -> None:
    given = json.loads(sys.argv[1])
    if "archive" in given:
        started(f"-XX:ArchiveClassesAtExit={given['archive']}").range(1).count()
        return
    if given["single_records_max"] is not None:
        jobs.SINGLE_RECORDS_MAX = given["single_records_max"]  # type: ignore[misc]
    kafka, source, registry = KafkaAddress(given["bootstrap"]), Source(given["source"]), Registry(Path(given["folder"]))
    sinks = {name: kind_at(name, at) for name, at in given["sinks"].items()}
    postgres = PostgresAddress(**given["postgres"])

    def checked(view: str, sink: str, number: int, stop: threading.Event) -> Checked:
        return check(postgres, kafka, source, registry, sinks[sink], view, number)

    def compared(view: str, group: str, stop: threading.Event) -> Checked:
        return check_computed(postgres, kafka, source, registry, view, group)

    maintainer = Maintainer(
        started(f"-XX:SharedArchiveFile={given['classes']}"),
        kafka,
        source,
        registry,
        Limits(shards=2, copy_interval_s=3600),
        sinks,
        check=checked,
        compare=compared,
    )
    signal.signal(signal.SIGTERM, lambda *_: maintainer.stop.set())
    maintainer.run()


if __name__ == "__main__":
    main()
