"""What the last sweep of each view found (alerts/sweep.py), in a file beside the views.

    swept.json   by view: how far the turn of its searches is, what differs, and which searches are broken

Written by whoever sweeps (the command line, the service), one at a time (a lock); read by anybody. A difference is told
until a person has acknowledged it: the next sweeps look at other changes and other searches, and say nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from headwater.file_lock import locked
from views.maintain.group import write_whole

FILE: Final = "swept.json"
LOCK: Final = "swept.lock"
SWEEP_S: Final = 600.0
"""How often a stretch of what was told is looked at once more (alerts/sweep.py)."""
LATE_S: Final = 3 * SWEEP_S
"""A view that was not swept for that long is told of."""


DIFFERENCES_MAX: Final = 1_000
"""Of a view, those that were found first."""


class Difference(msgspec.Struct, frozen=True, array_like=True):
    """Without the row's key, which may say who somebody is: the file is not among the places that are erased."""

    kind: str
    """missed or wrong."""
    search: int
    event: str
    version: int
    """Of the row's change: its offset in the view's topic."""
    found_us: int

    @property
    def what(self) -> tuple[str, int, str, int]:
        """Whenever it is found."""
        return self.kind, self.search, self.event, self.version

    @property
    def text(self) -> str:
        return f"{self.event} of search {self.search}"


class SweptView(msgspec.Struct, frozen=True):
    at_us: int = 0
    """Of the last sweep; 0: none yet."""
    awaited_us: int = 0
    """Since when there should be sweeps: the service found the view live then; 0 while it is not."""
    failed: str = ""
    """Why the last sweep of it came to nothing."""
    differences: tuple[Difference, ...] = ()
    """Oldest first."""
    acknowledged: tuple[Difference, ...] = ()
    """Those that somebody knows of: until newer changes have come, each sweep finds them again."""
    next_search: int = 0
    shape: str = ""
    """Of the view when its searches were last looked through for broken ones."""
    broken: tuple[int, ...] = ()
    """Saved searches that the view cannot answer any more, while they are wanted."""
    broken_example: str = ""
    lacks_from_us: int = 0
    lacks_until_us: int = 0
    """Changes of that time were forgotten before they were matched (alerts/sink.py); 0: none, as far as is known."""

    @property
    def lacks(self) -> str:
        """Of when, for people."""
        if not self.lacks_until_us:
            return ""
        since, until = (
            datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M")
            for at_us in (self.lacks_from_us, self.lacks_until_us)
        )
        return f"from {since} to {until} UTC"

    def late_s(self, now_us: float) -> float:
        """For how long it was not swept though it should have been; 0 while that is no longer than usual."""
        waited_s = (now_us - max(self.at_us, self.awaited_us)) / 1e6 if self.awaited_us else 0.0
        return waited_s if waited_s > LATE_S else 0.0

    def count(self, kind: str) -> int:
        return sum(each.kind == kind for each in self.differences)

    @property
    def example(self) -> str:
        return self.differences[0].text if self.differences else ""

    def found(self, new: Iterable[Difference], oldest_us: int) -> SweptView:
        """With these, once each; without those that were found so long ago that what was told then is forgotten."""
        held = [each for each in self.differences if each.found_us >= oldest_us]
        acknowledged = tuple(each for each in self.acknowledged if each.found_us >= oldest_us)
        known = {each.what for each in (*held, *acknowledged)}
        held += (each for each in new if each.what not in known)
        return msgspec.structs.replace(self, differences=tuple(held[:DIFFERENCES_MAX]), acknowledged=acknowledged)


def _without(acknowledged: tuple[Difference, ...], last: SweptView) -> SweptView:
    """Those that came meanwhile nobody has seen."""
    left = tuple(each for each in last.differences if each not in acknowledged)
    known = (*last.acknowledged, *acknowledged)[-DIFFERENCES_MAX:]
    return msgspec.structs.replace(last, differences=left, acknowledged=known)


class SweepFile:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> dict[str, SweptView]:
        try:
            return msgspec.json.decode((self._folder / FILE).read_bytes(), type=dict[str, SweptView])
        except (FileNotFoundError, msgspec.MsgspecError):
            return {}

    def note(self, view: str, changed: Callable[[SweptView], SweptView]) -> None:
        """What becomes of what is noted: another may have written since it was read."""
        with locked(self._folder / LOCK):
            known = self.read()
            self._write({**known, view: changed(known.get(view, SweptView()))})

    def acknowledge(self, view: str) -> int:
        """How many differences are told no more."""
        held = self.read().get(view, SweptView()).differences
        if held:
            self.note(view, partial(_without, held))
        return len(held)

    def await_sweeps(self, live: Collection[str], now_us: int, *, anew: bool) -> None:
        """From now on, of those views that were not live before; `anew`, of all, as nobody has swept until now."""
        with locked(self._folder / LOCK):
            known = self.read()
            since = {view: 0 if anew else each.awaited_us for view, each in known.items()}
            awaited = {view: (since.get(view) or now_us) if view in live else 0 for view in {*known, *live}}
            self._write(
                {
                    view: msgspec.structs.replace(known.get(view, SweptView()), awaited_us=at_us)
                    for view, at_us in awaited.items()
                }
            )

    def keep_only(self, views: Collection[str]) -> None:
        """Of views that are gone, or have no alerts any more, nothing is told."""
        if self.read().keys() - views:
            with locked(self._folder / LOCK):
                self._write({view: each for view, each in self.read().items() if view in views})

    def _write(self, known: dict[str, SweptView]) -> None:
        write_whole(self._folder / FILE, msgspec.json.encode(known))
