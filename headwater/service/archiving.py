"""The change log kept beyond Kafka's retention: appended to its archive again and again, on a thread of its own.

What cannot be archived now is tried again. What cannot be archived any more, because Kafka has let it go, is said once,
as an error, and left behind: waiting would only lose more. The archive knows what it lacks, and so does who reads it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from cdc.archive import RECORDS_PER_STEP_MAX, Archived, Archiver
from cdc.errors import HeadwaterError, PositionExpired
from headwater.deployment import Deployment
from headwater.events_log import get_log

COMPACT_S: Final = 3600.0
STOP_S_MAX: Final = 30.0


def archive(archiver: Archiver, interval_s: float, stop: threading.Event) -> None:
    """Until told to stop."""
    log, tended_at = get_log("archive"), time.monotonic()
    while not stop.is_set():
        try:
            step = _step(archiver)
            if time.monotonic() - tended_at > COMPACT_S:
                archiver.compact()
                archiver.vacuum()
                tended_at = time.monotonic()
            if step.end.offset - step.start.offset < RECORDS_PER_STEP_MAX:
                stop.wait(interval_s)
        except HeadwaterError as error:
            log.warning("the log was not archived", fact=error.fact, detail=error.detail, hint=error.hint)
            stop.wait(interval_s)


def _step(archiver: Archiver) -> Archived:
    try:
        return archiver.step()
    except PositionExpired as error:
        step = archiver.step(accept_gap=True)
        hint = "archive more often, or raise capture.retention_days; headwater retention"
        get_log("archive").error(
            "a part of the log was never archived", fact=error.fact, detail=error.detail, hint=hint
        )
        return step


@contextmanager
def archiving(deployment: Deployment) -> Iterator[None]:
    wanted = deployment.settings.warehouse
    if not wanted.archive:
        yield
        return
    archiver = Archiver(deployment.kafka, deployment.source, deployment.settings.warehouse_folder)
    stop = threading.Event()
    arguments = (archiver, float(wanted.archive_interval_s), stop)
    thread = threading.Thread(target=archive, args=arguments, name="archive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(STOP_S_MAX)
