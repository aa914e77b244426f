"""The child that keeps the views: `headwater maintain`, started when there are any."""

from __future__ import annotations

from typing import Final

from cdc.errors import StateError
from headwater.service.kept_child import KeptChild, Pauses
from headwater.settings import Settings
from views.maintain.registry import Registry

STOP_S_MAX: Final = 40.0


class Maintaining:
    def __init__(self, settings: Settings) -> None:
        wanted = settings.views
        pauses = Pauses(wanted.restart_backoff_ms / 1000, wanted.restart_backoff_max_ms / 1000)
        self._registry = Registry(settings.views_state)
        self._child = KeptChild("views", "maintain", settings.logs_folder, pauses)

    def mend(self) -> None:
        """Idempotent: to be called again and again."""
        self._child.mend(is_wanted=self._child.is_running or self._is_wanted())

    def _is_wanted(self) -> bool:
        """Nobody can keep views while what is wanted cannot be read, which the status says. Everything else goes on:
        `headwater apply` needs it to write that anew."""
        try:
            return bool(self._registry.wanted().views)
        except StateError:
            return False

    def stop(self) -> None:
        self._child.stop(STOP_S_MAX)
