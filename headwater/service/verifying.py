"""Views and their sinks, compared with Postgres by themselves: samples all the time, everything now and then.

On a thread of its own, one view after the other. It pauses for as long as it takes to stay under the share of a core
that the settings grant: what a sample costs is what this thread computed and what Postgres took for it. All rows are
compared by a process of its own. Nothing that happens to one view ends this.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog

from cdc.errors import HeadwaterError
from headwater.dead_letters import held_now
from headwater.deployment import Deployment
from headwater.events_log import get_log
from headwater.settings.runtime import VerifySettings
from headwater.views.checking import verify_apart
from headwater.views.place import Place
from headwater.views.repair import repair_keys, rows_to_tell
from headwater.views.sampling import BY, Sampler
from headwater.views.verify_history import VIEW, VerifyRun, Why
from headwater.views.verify_view import Asking, history_of
from views.maintain.registry import Registry, ViewState

STOP_S_MAX: Final = 30.0
POLL_S: Final = 1.0
NOT_SAMPLED: Final = "not sampled"
TRIES_MAX: Final = 3
"""To repair a row that stays wrong; each is some attempts."""
AGAIN_S: Final = 3_600.0
"""Until such a row is tried once more: its place may have been put right."""


@dataclass
class Verifying:
    place: Place
    wanted: VerifySettings
    stop: threading.Event
    clock: Callable[[], float] = time.time
    full: Callable[[str, Asking, int, threading.Event], bool] = verify_apart
    """All rows of a view, elsewhere: whether they are equal."""

    def __post_init__(self) -> None:
        self._sampler = Sampler(self.place, self.wanted.sample_rows)
        self._log: structlog.stdlib.BoundLogger = get_log("verify")
        self._began_at = self.clock()
        self._tried_at: dict[str, float] = {}
        self._tries = Tries()
        self._history = history_of(self.place)

    def run(self) -> None:
        """Until told to stop."""
        while not self.stop.is_set():
            began = time.monotonic()
            with self._going_on("not verified"):
                self._turn()
            self.stop.wait(max(POLL_S, self.wanted.interval_s - (time.monotonic() - began)))

    def _turn(self) -> None:
        self._history.keep_only(self.place.registry.wanted().views)
        for view in self._live():
            if self.stop.is_set():
                return
            before_s = time.thread_time() + self._sampler.postgres_s
            with self._going_on(NOT_SAMPLED, view):
                self._sampled(view)
            spent_s = time.thread_time() + self._sampler.postgres_s - before_s
            self.stop.wait(rest_s(spent_s, self.wanted.busy_percent_max))
        self._full()

    @contextmanager
    def _going_on(self, what: str, view: str = "") -> Iterator[None]:
        """Whatever it is, the other views are looked at, and this one again when it is due."""
        try:
            yield
        except HeadwaterError as error:
            log = self._log.info if what == NOT_SAMPLED else self._log.warning  # the next sample is near
            log(what, view=view, fact=error.fact, detail=error.detail)
        except Exception as error:
            self._log.error(what, view=view, fact=f"{type(error).__name__}: {error}")

    def _live(self) -> list[str]:
        """Views that are whole, and kept by somebody: of others the status says enough."""
        registry = self.place.registry
        if not registry.is_kept():
            return []
        wanted = registry.wanted().views
        views = registry.state().views
        return sorted(name for name, status in views.items() if status.state is ViewState.LIVE and name in wanted)

    def _sampled(self, view: str) -> None:
        run = self._sampler.sample(view)
        if view not in self._history.wrong():
            self._tries.forget(view)
        if not run.is_equal:
            self._log.error("a sample differs", view=view, places=[each.place for each in run.places if each.keys])
            with self._going_on("not repaired", view):
                self._repair(view)

    def _repair(self, view: str) -> None:
        """Only what sinks have wrong: a view that is wrong itself is for a person to look at, and so is a row that a
        place refused: it would refuse it again, and again."""
        wrong = self._history.wrong().get(view, {})
        if not self.wanted.repair or VIEW in wrong:
            return
        keys = {key for sink, found in wrong.items() for key in found.keys() - held_now(self.place, view, sink)}
        known = sorted(key.encode() for key in keys)
        worth = self._tries.worth(view, known, rows_to_tell(self.place, view, known), self.clock()) if known else []
        if not worth:
            return
        try:
            found = repair_keys(self.place, view, worth, BY)
            self._log.warning("rows were written again", view=view, keys=len(worth), is_equal=found.is_equal)
        finally:
            wrong = self._history.wrong().get(view, {})
            left = [key for key in worth if any(key.decode() in keys for keys in wrong.values())]
            if given_up := self._tries.given_up(view, left):
                self._log.error(
                    "rows are not written again any more",
                    view=view,
                    keys=len(given_up),
                    fact=f"{TRIES_MAX} times a place did not take them; tried again when they change, or once an hour",
                    hint=f"headwater verify {view}; headwater rebuild {view}",
                )

    def _full(self) -> None:
        """All rows of the view whose turn is longest ago, if it is due."""
        if not self.wanted.full_interval_s or not (views := self._live()):
            return
        last = {view: self._compared_at(view) for view in views}
        view = min(views, key=lambda name: last[name])
        if self.clock() - last[view] < self.wanted.full_interval_s:
            return
        self._tried_at[view] = self.clock()
        with self._going_on("not verified", view):
            niceness = self.place.deployment.settings.views.niceness
            if not self.full(view, Asking(Why.SCHEDULE, BY), niceness, self.stop):
                self._log.error("a view or its sinks differ", view=view)

    def _compared_at(self, view: str) -> float:
        """When all its rows were last compared, or tried to be; at the earliest when this began."""
        whole = (Why.ON_DEMAND, Why.SCHEDULE, Why.SWITCH)
        runs: list[VerifyRun] = [run for run in self._history.runs(view) if run.why in whole]
        tried_at = self._tried_at.get(view, self._began_at)
        return max([tried_at, *(run.began_at_us / 1e6 for run in runs[:1])])


@dataclass
class _Tried:
    row: bytes | None
    """That was told again; None for a key without a row."""
    at: float
    times: int = 0


@dataclass
class Tries:
    """How often rows were told again in vain: a place that never takes one must not be told of it for ever."""

    _known: dict[str, dict[bytes, _Tried]] = field(default_factory=dict)

    def worth(self, view: str, keys: Sequence[bytes], rows: Mapping[bytes, bytes], now: float) -> list[bytes]:
        """Those of the keys that are known to be wrong that are worth another try, which this is; the view's other keys
        are forgotten."""
        before, after, found = self._known.get(view, {}), dict[bytes, _Tried](), list[bytes]()
        for key in keys:
            tried, row = before.get(key), rows.get(key)
            if tried is None or tried.row != row:
                tried = _Tried(row, now)
            elif tried.times >= TRIES_MAX and now - tried.at < AGAIN_S:
                after[key] = tried
                continue
            after[key] = _Tried(row, now, tried.times + 1)
            found.append(key)
        self._known[view] = after
        return found

    def forget(self, view: str) -> None:
        """Nothing of it is wrong any more."""
        self._known.pop(view, None)

    def given_up(self, view: str, left: Sequence[bytes]) -> list[bytes]:
        """Of those that were tried and are wrong still."""
        known = self._known.get(view, {})
        return [key for key in left if key in known and known[key].times == TRIES_MAX]


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
