"""The child that answers over HTTP: `headwater serve`. A process of its own, because a lookup is quick only where it
does not wait for the watch, the demo, the archive and the deliveries: they are Python, too, and one runs at a time."""

from __future__ import annotations

import socket
import time
from typing import Final

from cdc.errors import StackError
from headwater.service.kept_child import KeptChild, Pauses
from headwater.settings import Settings

PAUSES: Final = Pauses(0.5, 30.0)
START_S_MAX: Final = 60.0
START_POLL_S: Final = 0.05
STOP_S_MAX: Final = 10.0
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # where to ask, not where to listen


class Serving:
    def __init__(self, settings: Settings) -> None:
        self._address = _EVERYWHERE.get(settings.http.host, settings.http.host), settings.http.port
        self._child = KeptChild("api", "serve", settings.logs_folder, PAUSES)

    def start(self) -> None:
        """Returns when it answers. Raises StackError when it ends instead, or takes too long."""
        self._child.mend()
        deadline = time.monotonic() + START_S_MAX
        while not self._answers():
            if not self._child.is_running or time.monotonic() > deadline:
                raise StackError(
                    "the page could not be served", detail=self._child.last_words(), hint="headwater logs api"
                )
            time.sleep(START_POLL_S)

    def mend(self) -> None:
        """Idempotent: to be called again and again."""
        self._child.mend()

    def stop(self) -> None:
        self._child.stop(STOP_S_MAX)

    def _answers(self) -> bool:
        try:
            socket.create_connection(self._address, timeout=1.0).close()
        except OSError:
            return False
        return True
