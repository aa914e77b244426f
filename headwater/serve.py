"""The process that answers over HTTP: `headwater serve`, a child of `headwater up`; more of them may run beside it.

What the watch last saw comes from its file, that an owner has news from Postgres, how far each sink is from Kafka:
nothing is asked of the process that started it, and it may be killed at any moment.
"""

from __future__ import annotations

import gc
import threading
from dataclasses import dataclass
from typing import Final

from headwater.deployment import Deployment
from headwater.http.server import PageServer
from headwater.status_file import StatusFile

LOOK_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class Service:
    deployment: Deployment
    stop: threading.Event

    def __call__(self) -> None:
        """Blocks until `stop` is set. Raises when the port cannot be had."""
        told, page = StatusFile(self.deployment.settings.data_folder), PageServer(self.deployment)
        with page.running():
            # What was imported stays: looking through all of it for garbage would hold up a request for 0.1 s.
            gc.collect()
            gc.freeze()
            while not self.stop.is_set():
                page.status = told.read()
                self.stop.wait(LOOK_S)
