"""What goes on while everything runs: servers that died are started again, a failed connector is restarted with a
growing pause (never one that would skip changes), the canary ticks, and everybody is shown the same status.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import psycopg

from cdc.errors import HeadwaterError
from cdc.keeper import CaptureKeeper, Deed
from cdc.mending import Mending
from cdc.postgres import connect
from headwater.deployment import Deployment
from headwater.events_log import get_log
from headwater.service.maintaining import Maintaining
from headwater.stack.stack import Stack
from headwater.status import Observer, Status

LOOK_INTERVAL_S: Final = 1.0
KEEP_INTERVAL_S: Final = 3.0
CANARY_INTERVAL_S: Final = 10.0

Show = Callable[[Status], None]


@dataclass
class Watch:
    """Runs on the main thread: only there may servers be started (stack/process.py)."""

    deployment: Deployment
    stack: Stack
    show: Show
    stop: threading.Event
    views: Maintaining

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
        self._kept_at = self._ticked_at = float("-inf")

    def run(self) -> None:
        """Until `stop` is set. Raises when a server cannot be kept alive."""
        while not self.stop.is_set():
            began = time.monotonic()
            self.show(self._observer.look())  # first: a server that died shows as down while it is started again
            self.stack.mend(lambda name, what: self._log.warning("server", name=name, what=what))
            self.views.mend()
            self._keep_capture(began)
            self._tick_canary(began)
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

    def _tick_canary(self, now: float) -> None:
        """A number written at the source: what it says must arrive, whatever the rest claims."""
        if now - self._ticked_at < CANARY_INTERVAL_S:
            return
        try:
            with connect(self.deployment.postgres) as conn:
                conn.execute("select headwater.tick_canary()")
        except (HeadwaterError, psycopg.Error) as error:
            self._log.warning("canary not written", reason=str(error))
            return
        self._ticked_at = now
