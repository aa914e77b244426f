"""Keeps capture going: restarts a failed connector by the rule of mending.py, and begins capture anew when its initial
snapshot was cut off. Looks again and again; not for several threads at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import psycopg

from cdc.capture import Capture
from cdc.changelog import ChangeLog
from cdc.connect import ConnectClient
from cdc.errors import SourceError
from cdc.mending import Mending, decide
from cdc.snapshots import SCAN_RECORDS_MAX, SnapshotProgress, SnapshotTracker


class Deed(StrEnum):
    NOTHING = "nothing"
    RESTARTED = "connector restarted"
    BEGAN_ANEW = "snapshot was cut off: capture began anew"
    GAVE_UP = "connector left as failed"


@dataclass(frozen=True, slots=True)
class Look:
    deed: Deed
    snapshot: SnapshotProgress
    reason: str = ""
    attempts: int = 0


class CaptureKeeper:
    def __init__(self, capture: Capture, mending: Mending | None = None) -> None:
        self._capture = capture
        self._mending = mending or Mending()
        self._tracker = SnapshotTracker(ChangeLog(capture.kafka, capture.source))
        self._half_begun = False
        """A new beginning that was not brought to its end: the connector may be gone."""
        self._half_restarted = False
        """A restart that was not brought to its end: the connector may be stopped, which is no failure."""

    def step(self, now: float) -> Look:
        """One look, and at most one deed. Raises HeadwaterError when something cannot be asked: try again later."""
        try:
            return self._step(now)
        except psycopg.Error as error:
            raise SourceError("lost the source database", detail=str(error).strip(), hint="headwater doctor") from error

    def _step(self, now: float) -> Look:
        snapshot = self._tracker.look(SCAN_RECORDS_MAX)
        if snapshot.behind:  # what it has not read yet may change the verdict
            return Look(Deed.NOTHING, snapshot)
        with ConnectClient(self._capture.connect) as client:
            decision = decide(client.status(self._capture.source.connector), self._mending, now)
            self._mending = decision.mending
            failed_within = decision.restart and not snapshot.complete
            if snapshot.spoilt or failed_within or self._half_begun:
                self._half_begun = True
                self._capture.begin_anew()
                self._half_begun = False
                return Look(Deed.BEGAN_ANEW, snapshot, decision.reason)
            if decision.restart:
                self._half_restarted = True
            if self._half_restarted:
                self._capture.restart(client)
                self._half_restarted = False
                return Look(Deed.RESTARTED, snapshot, decision.reason, decision.mending.attempts)
        return Look(Deed.GAVE_UP if decision.fatal else Deed.NOTHING, snapshot, decision.reason)
