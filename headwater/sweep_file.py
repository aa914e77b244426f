"""What the last sweep of each view found (alerts/sweep.py), in a file beside the views.

    swept.json   by view: how far the turn of its searches is, what differs, and which searches are broken

Written by whoever sweeps (the command line, the service), one at a time (a lock); read by anybody. A difference is told
until a later sweep finds none.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from headwater.file_lock import locked
from views.maintain.group import write_whole

FILE: Final = "swept.json"
LOCK: Final = "swept.lock"


class SweptView(msgspec.Struct, frozen=True):
    at_us: int = 0
    missed: int = 0
    wrong: int = 0
    example: str = ""
    since_us: int | None = None
    """When it first differed; None while nothing does."""
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

    @property
    def differs(self) -> bool:
        return self.since_us is not None


class SweepFile:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> dict[str, SweptView]:
        try:
            return msgspec.json.decode((self._folder / FILE).read_bytes(), type=dict[str, SweptView])
        except (FileNotFoundError, msgspec.MsgspecError):
            return {}

    def note(self, view: str, swept: SweptView) -> None:
        with locked(self._folder / LOCK):
            write_whole(self._folder / FILE, msgspec.json.encode({**self.read(), view: swept}))

    def keep_only(self, views: Collection[str]) -> None:
        """Of views that are gone, or have no alerts any more, nothing is told."""
        if self.read().keys() - views:
            with locked(self._folder / LOCK):
                left = {view: each for view, each in self.read().items() if view in views}
                write_whole(self._folder / FILE, msgspec.json.encode(left))
