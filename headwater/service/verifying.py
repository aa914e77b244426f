"""Views and their sinks, compared with Postgres by themselves: samples all the time, everything now and then.

On a thread of its own, one view after the other. It pauses for as long as it takes to stay under the share of a core
that the settings grant: what a sample costs is what this thread computed and what Postgres took for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from cdc.errors import HeadwaterError
from headwater.deployment import Deployment
from headwater.events_log import get_log
from headwater.settings.runtime import VerifySettings
from headwater.views.place import Place
from headwater.views.repair import repair_keys
from headwater.views.sampling import BY, Sampler
from headwater.views.verify_history import VIEW, VerifyRun, Why
from headwater.views.verify_view import Asking, history_of, verify_view
from views.maintain.registry import Registry, ViewState

STOP_S_MAX: Final = 30.0
POLL_S: Final = 1.0


@dataclass
class Verifying:
    place: Place
    wanted: VerifySettings
    stop: threading.Event
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._sampler = Sampler(self.place, self.wanted.sample_rows)
        self._log: structlog.stdlib.BoundLogger = get_log("verify")
        self._began_at = self.clock()
        self._history = history_of(self.place)

    def run(self) -> None:
        """Until told to stop."""
        while not self.stop.is_set():
            began = time.monotonic()
            self._history.keep_only(self.place.registry.wanted().views)
            for view in self._live():
                if self.stop.is_set():
                    return
                before_s = time.thread_time() + self._sampler.postgres_s
                self._sampled(view)
                spent_s = time.thread_time() + self._sampler.postgres_s - before_s
                self.stop.wait(rest_s(spent_s, self.wanted.busy_percent_max))
            self._full()
            self.stop.wait(max(POLL_S, self.wanted.interval_s - (time.monotonic() - began)))

    def _live(self) -> list[str]:
        """Views that are whole, and kept by somebody: of others the status says enough."""
        registry = self.place.registry
        if not registry.is_kept():
            return []
        wanted = registry.wanted().views
        views = registry.state().views
        return sorted(name for name, status in views.items() if status.state is ViewState.LIVE and name in wanted)

    def _sampled(self, view: str) -> None:
        try:
            run = self._sampler.sample(view)
        except HeadwaterError as error:
            self._log.info("not sampled", view=view, fact=error.fact, detail=error.detail)
            return
        except Exception as error:  # whatever it is, the other views are looked at
            self._log.error("not sampled", view=view, fact=f"{type(error).__name__}: {error}")
            return
        if not run.is_equal:
            self._log.error("a sample differs", view=view, places=[each.place for each in run.places if each.keys])
            self._repair(view)

    def _repair(self, view: str) -> None:
        """Only what sinks have wrong: a view that is wrong itself is for a person to look at."""
        wrong = self._history.wrong().get(view, {})
        keys = {key for place, found in wrong.items() if place != VIEW for key in found}
        if not self.wanted.repair or not keys or VIEW in wrong:
            return
        try:
            found = repair_keys(self.place, view, [key.encode() for key in sorted(keys)], BY)
            self._log.warning("rows were written again", view=view, keys=len(keys), is_equal=found.is_equal)
        except HeadwaterError as error:
            self._log.warning("not repaired", view=view, fact=error.fact, detail=error.detail)

    def _full(self) -> None:
        """All rows of the view whose turn is longest ago, if it is due."""
        if not self.wanted.full_interval_s or not (views := self._live()):
            return
        last = {view: self._compared_at(view) for view in views}
        view = min(views, key=lambda name: last[name])
        if self.clock() - last[view] < self.wanted.full_interval_s:
            return
        try:
            found = verify_view(self.place, view, Asking(Why.SCHEDULE, BY))
        except HeadwaterError as error:
            self._log.info("not verified", view=view, fact=error.fact, detail=error.detail)
            return
        if not found.is_equal:
            self._log.error("a view or its sinks differ", view=view)

    def _compared_at(self, view: str) -> float:
        """When all its rows were last compared, or tried to be; at the earliest when this began."""
        whole = (Why.ON_DEMAND, Why.SCHEDULE, Why.SWITCH)
        runs: list[VerifyRun] = [run for run in self._history.runs(view) if run.why in whole]
        return max([self._began_at, *(run.began_at_us / 1e6 for run in runs[:1])])


def rest_s(spent_s: float, percent_max: float) -> float:
    """How long to pause after having been busy, so that the share of a core is kept."""
    return spent_s * (100 / percent_max - 1)


@contextmanager
def verifying(deployment: Deployment) -> Iterator[None]:
    wanted = deployment.settings.verify
    if not wanted.interval_s:
        yield
        return
    place = Place(deployment, Registry(deployment.settings.views_state), Path())
    stop = threading.Event()
    thread = threading.Thread(target=Verifying(place, wanted, stop).run, name="verify", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(STOP_S_MAX)
