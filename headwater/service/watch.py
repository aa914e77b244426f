"""What goes on while everything runs: servers that died are started again, a failed connector is restarted with a
growing pause (never one that would skip changes), the canary ticks and is followed, gaps are written down, and
everybody is shown the same status.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from cdc.archive import ArchiveReader
from cdc.canary import CanaryCheck, Proven
from cdc.changelog import ChangeLog
from cdc.errors import HeadwaterError, StateError
from cdc.gaps import Gaps
from cdc.guardian import PAUSED
from cdc.keeper import CaptureKeeper, Deed
from cdc.mending import Mending
from headwater.deployment import Deployment
from headwater.events_log import get_log
from headwater.service.canary import Canary
from headwater.stack.stack import Stack
from headwater.status import Observer, Status
from views.maintain.registry import Registry

LOOK_INTERVAL_S: Final = 1.0
RUNNING: Final = "RUNNING"
KEEP_INTERVAL_S: Final = 3.0
NOTE_INTERVAL_S: Final = 10.0
"""How often it is written down how far the canary was followed; a new gap is written at once."""

Show = Callable[[Status], None]


class Mended(Protocol):
    """A child that is to be kept alive."""

    def mend(self) -> None: ...


@dataclass
class Watch:
    """Runs on the main thread: only there may servers be started (stack/process.py)."""

    deployment: Deployment
    stack: Stack
    show: Show
    stop: threading.Event
    children: Sequence[Mended]

    def __post_init__(self) -> None:
        wanted = self.deployment.settings.capture
        self._observer = Observer(self.deployment)
        self._log = get_log("watch")
        mending = Mending(
            backoff_s=wanted.restart_backoff_ms / 1000,
            backoff_s_max=wanted.restart_backoff_max_ms / 1000,
            attempts_max=wanted.max_restarts,
        )
        self._keeper = CaptureKeeper(self.deployment.capture(), mending)
        self._last_deed = Deed.NOTHING
        self._kept_at = self._noted_at = float("-inf")
        self._registry = Registry(self.deployment.settings.views_state)
        self._gaps = self._known_gaps()
        self._canary = self._followed(self._gaps.proven)
        self._canary_against = ""

    def run(self) -> None:
        """Until `stop` is set. Raises when a server cannot be kept alive."""
        while not self.stop.is_set():
            began = time.monotonic()
            status = self._observer.look()
            # Shown first: a server that died shows as down while it is started again.
            late = self._canary.late(began, is_held=_is_held(status))
            self.show(replace(status, findings=(*status.findings, *late)))
            self._note_gaps(status, began)
            self.stack.mend(lambda name, what: self._log.warning("server", name=name, what=what))
            for child in self.children:
                child.mend()
            self._keep_capture(began)
            self._watch_canary(began, status.connector == RUNNING)
            self.stop.wait(max(0.0, LOOK_INTERVAL_S - (time.monotonic() - began)))

    def _keep_capture(self, now: float) -> None:
        if now - self._kept_at < KEEP_INTERVAL_S:
            return
        self._kept_at = now
        try:
            look = self._keeper.step(now)
        except HeadwaterError as error:
            self._log.warning("capture not looked at", fact=error.fact, detail=error.detail)
            return
        if look.deed is Deed.GAVE_UP and self._last_deed is not Deed.GAVE_UP:
            self._log.error(look.deed.value, reason=look.reason)
        elif look.deed in (Deed.RESTARTED, Deed.BEGAN_ANEW):
            self._log.warning(look.deed.value, reason=look.reason, attempts=look.attempts)
        self._last_deed = look.deed

    def _watch_canary(self, now: float, is_running: bool) -> None:
        """A number written at the source: what it says must arrive, whatever the rest claims."""
        against = ""
        for step in (lambda: self._canary.tick(now, is_running=is_running), self._canary.look):
            try:
                step()
            except HeadwaterError as error:
                against = error.fact
                if against != self._canary_against:  # once, not every second while a server is away
                    self._log.warning("canary not followed", fact=error.fact, detail=error.detail)
        self._canary_against = against

    def _note_gaps(self, status: Status, now: float) -> None:
        """So that every process knows, and still knows after a restart."""
        gaps = self._gaps.plus(status.gaps, self._canary.check.known)
        for gap in gaps.gaps[len(self._gaps.gaps) :]:
            self._log.error("a gap in the log", code=gap.code, detail=gap.detail, era=gap.era, hint="headwater recover")
        is_news = gaps.gaps != self._gaps.gaps or _break(gaps) != _break(self._gaps)
        if is_news or now - self._noted_at > NOTE_INTERVAL_S:
            self._registry.note_gaps(gaps)
            self._noted_at = now
        self._gaps = gaps

    def _known_gaps(self) -> Gaps:
        try:
            return self._registry.gaps()
        except StateError as error:  # it is found again: the canary is followed from the era's beginning
            self._log.warning("gaps are looked for anew", fact=error.fact, detail=error.detail)
            return Gaps()

    def _followed(self, proven: Proven | None) -> Canary:
        place = self.deployment
        is_archived = place.settings.warehouse.archive
        log = ChangeLog(place.kafka, place.source)
        archive = ArchiveReader(place.source, place.settings.warehouse_folder)
        return Canary(place.postgres, CanaryCheck(log, proven, replace(log, archive=archive) if is_archived else None))


def _is_held(status: Status) -> bool:
    """Whether capture waits for a person, or for the end of its initial snapshot: nothing is broken then."""
    return status.connector in PAUSED or (status.snapshot is not None and not status.snapshot.complete)


def _break(gaps: Gaps) -> str:
    return gaps.proven.gap if gaps.proven else ""
