"""Connections that webhooks left open, to be used again by the next to the same origin. Bounded in number and time.

An origin is scheme, name and port: a connection is only ever used again for the name whose certificate was compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from alerts.channels.http_post import Connection


class Origin(NamedTuple):
    scheme: str
    host: str
    port: int


@dataclass(slots=True)
class Connections:
    idle_max: int
    idle_s: float
    now_s: Callable[[], float] = time.monotonic
    idle: dict[Origin, list[Connection]] = field(default_factory=dict)
    """The longest idle origin first."""
    count: int = 0

    def take(self, origin: Origin) -> Connection | None:
        """One that can be used, the one used last; those that cannot are closed."""
        kept = self.idle.pop(origin, [])
        self.count -= len(kept)
        while kept:
            connection = kept.pop()
            if connection.is_usable and self.now_s() - connection.idle_since_s < self.idle_s:
                self._keep(origin, kept)
                return connection
            connection.close()
        return None

    def give_back(self, origin: Origin, connection: Connection) -> None:
        connection.idle_since_s = self.now_s()
        kept = self.idle.pop(origin, [])
        self.count -= len(kept)
        self._keep(origin, [*kept, connection])
        while self.count > self.idle_max:
            self._close_oldest()

    def close(self) -> None:
        while self.count:
            self._close_oldest()

    def _keep(self, origin: Origin, kept: list[Connection]) -> None:
        if kept:
            self.idle[origin] = kept  # behind the others
            self.count += len(kept)

    def _close_oldest(self) -> None:
        origin = next(iter(self.idle))
        kept = self.idle[origin]
        kept.pop(0).close()
        self.count -= 1
        if not kept:
            del self.idle[origin]
