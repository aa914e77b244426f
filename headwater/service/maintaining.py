"""The child that keeps the views: `headwater maintain`, started when there are any."""

from __future__ import annotations

from typing import Final

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
        self._child.mend(is_wanted=self._child.is_running or bool(self._registry.wanted().views))

    def stop(self) -> None:
        self._child.stop(STOP_S_MAX)
