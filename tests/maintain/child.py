"""Keeps views in a process of its own, until it is told to stop or killed: `python -m tests.maintain.child '{…}'`."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from cdc.addresses import KafkaAddress, Source
from headwater.spark import session
from views.maintain import jobs
from views.maintain.maintainer import Limits, Maintainer
from views.maintain.registry import Registry


def main() -> None:
    given = json.loads(sys.argv[1])
    if given["single_records_max"] is not None:
        jobs.SINGLE_RECORDS_MAX = given["single_records_max"]  # type: ignore[misc]
    maintainer = Maintainer(
        session(name="headwater-child", driver_memory_mb=512),
        KafkaAddress(given["bootstrap"]),
        Source(given["source"]),
        Registry(Path(given["folder"])),
        Limits(shards=2, copy_interval_s=3600),
    )
    signal.signal(signal.SIGTERM, lambda *_: maintainer.stop.set())
    maintainer.run()


if __name__ == "__main__":
    main()
