"""A child of `headwater up` that is one of our own verbs: started, started again when it dies, with a growing pause."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

from headwater.events_log import get_log
from headwater.stack.process import Child, Command

WHOLE_S: Final = 60.0
"""A life of that length counts as one that worked: the pause starts small again."""


class Pauses(NamedTuple):
    first_s: float
    most_s: float


class KeptChild:
    """Start, mend and stop from the main thread (stack/process.py says why)."""

    def __init__(self, name: str, verb: str, logs_folder: Path, pauses: Pauses) -> None:
        self.name = name
        self._command = Command((sys.executable, "-m", "headwater", verb))
        self._log_file = logs_folder / f"{name}.log"
        self._pauses, self._pause_s = pauses, pauses.first_s
        self._child: Child | None = None
        self._started_at = 0.0

    @property
    def is_running(self) -> bool:
        return self._child is not None and self._child.exit_code() is None

    def mend(self, *, is_wanted: bool = True) -> None:
        """Idempotent: to be called again and again. One that is not wanted is not started, but never stopped."""
        now = time.monotonic()
        if self.is_running:
            if now - self._started_at > WHOLE_S:
                self._pause_s = self._pauses.first_s
            return
        if self._child is not None:
            if now - self._started_at < self._pause_s:
                return
            get_log(self.name).warning(
                f"{self.name} ended", code=self._child.exit_code(), said=self.last_words(4), again_now=is_wanted
            )
            self._pause_s = min(self._pause_s * 2, self._pauses.most_s)
            self._child.kill()  # what is left of its group
            self._child = None
        if is_wanted:
            self._started_at = now
            self._child = Child(self.name, self._command, self._log_file)

    def last_words(self, lines: int = 12) -> str:
        return self._child.log_tail(lines) if self._child else ""

    def stop(self, timeout_s: float) -> None:
        if self._child is not None:
            self._child.stop(timeout_s)
