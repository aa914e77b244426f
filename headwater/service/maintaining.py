"""The child that keeps the views: started when there are any, started again when it dies, with a growing pause."""

from __future__ import annotations

import sys
import time
from typing import Final

from headwater.events_log import get_log
from headwater.settings import Settings
from headwater.stack.process import Child, Command
from views.maintain.registry import Registry

NAME: Final = "views"
STOP_S_MAX: Final = 40.0
WHOLE_S: Final = 60.0
"""A life of that length counts as one that worked: the pause starts small again."""


class Maintaining:
    """Start and mend from the main thread (stack/process.py says why)."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._registry = Registry(settings.views_state)
        self._child: Child | None = None
        self._started_at = 0.0
        self._pause_s = settings.views.restart_backoff_ms / 1000

    def mend(self) -> None:
        """Idempotent: to be called again and again."""
        now = time.monotonic()
        if self._child is not None and self._child.exit_code() is None:
            if now - self._started_at > WHOLE_S:
                self._pause_s = self._settings.views.restart_backoff_ms / 1000
            return
        if self._child is not None:
            if now - self._started_at < self._pause_s:
                return
            get_log("views").warning(
                "maintainer ended", code=self._child.exit_code(), said=self._child.log_tail(4), again_now=True
            )
            self._pause_s = min(self._pause_s * 2, self._settings.views.restart_backoff_max_ms / 1000)
            self._child.kill()  # what is left of its group: the JVM, workers
        if self._registry.wanted().views:
            self._started_at = now
            command = Command((sys.executable, "-m", "headwater", "maintain"))
            self._child = Child(NAME, command, self._settings.logs_folder / f"{NAME}.log")

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop(STOP_S_MAX)
