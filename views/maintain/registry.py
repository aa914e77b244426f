"""Which views are wanted, and how they are: three files, each with one writer.

wanted.json   what `headwater apply` decided: written by it, read by the maintainer
state.json    what the maintainer made of it: its groups, and the state of every view
gaps.json     what is missing from the log, as far as who watches over capture has noticed
book.json     generations, rebuilds and pauses: what the maintainer goes on from (book.py); one that could not be read
              is kept beside it as book.unread-<second>.json (booking.py)
"""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from cdc.errors import StateError
from cdc.gaps import Gaps
from views.maintain.book import Book
from views.maintain.group import write_whole
from views.sinks.lane import SinkStatus

WANTED: Final = "wanted.json"
STATE: Final = "state.json"
GAPS: Final = "gaps.json"
BOOK: Final = "book.json"
BOOK_ASIDE: Final = "book.unread-{}.json"
GROUPS: Final = "groups"
COPIES: Final = "copies"

T = TypeVar("T")


class WantedView(msgspec.Struct, frozen=True):
    text: str
    """CREATE MATERIALIZED VIEW …, as it was written."""
    tables: list[dict[str, Any]]
    """The shapes of its tables when it was applied: rows of headwater.catalog."""
    applied_at_s: float
    batch: str
    """What was applied together is kept together."""
    skip_before: dict[str, int] = {}
    """Tables whose earlier rows come from a snapshot that was asked for when it was applied."""
    era: int = 0
    """Of those offsets: in another one they mean nothing. 0 is whichever there is."""
    is_reviewed: bool = True
    """Otherwise it is built beside the one that readers use, and waits there until somebody has looked."""
    previous: WantedView | None = None
    """Of one that waits: what it would replace."""
    from_mirrors: bool = False
    """Built from the tables as the group knows them that keeps it now, where that is possible."""
    is_compared: bool = False
    """Computed anew by a rebuild: shown when every row was compared with its SQL in Postgres, not before; what readers
    leave is kept, though it is defined alike."""
    goes_back_to: str = ""
    """The group that readers left and that somebody wants back as it is."""


class Wanted(msgspec.Struct, frozen=True):
    views: dict[str, WantedView] = {}


class ViewState(StrEnum):
    WAITING = "waiting"
    """Applied, not begun."""
    BUILDING = "building"
    READY = "ready"
    """Built beside the one that readers use; waits for somebody who has looked at what would change."""
    LIVE = "live"
    PAUSED = "paused"
    """Not fed any more; the reason says why."""
    HELD = "held"
    """A person has paused it; it goes on from where it is when they say so."""


class Review(msgspec.Struct, frozen=True):
    """What readers of a view would see change: rows by what becomes of them."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    equal: int = 0
    columns_added: tuple[str, ...] = ()
    columns_removed: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


class ViewStatus(msgspec.Struct, frozen=True):
    state: ViewState
    group: str = ""
    applied_at_s: float = 0.0
    """Which application of the view this is."""
    reason: str = ""
    stale: str = ""
    """Why what readers are given is not what it should be; empty while it is."""
    stale_since_s: float = 0.0
    is_gap: bool = False
    """Stale because changes are missing, not because they are late."""
    review: Review | None = None
    """Of one that is ready."""
    serving: str = ""
    """The group that readers are given rows of: while `group` is built, the one that it will replace. Empty before the
    first is shown."""
    is_computed: bool = False
    """What is built is whole, and waits until it was compared (WantedView.is_compared)."""
    failed: str = ""
    """Why computing it anew came to nothing: readers have what they had, and that is fed."""

    @property
    def told(self) -> str:
        """Why it is as it is."""
        if self.failed:
            return f"it could not be computed anew: {self.failed}"
        return self.reason or ("computed anew, to be compared: headwater rebuild --list" if self.is_computed else "")

    @property
    def read_from(self) -> str:
        """The group whose shape, and whose position, is what readers see."""
        return self.serving or self.group


class GroupStatus(msgspec.Struct, frozen=True):
    offset: int
    end: int
    """Of the log."""
    is_live: bool
    is_following: bool
    """By itself, behind the others."""
    lsn: str = ""
    """The last commit that it includes."""
    committed_at_us: int | None = None
    era: int = 0
    """Of the log that it reads; 0 where that was not written down."""
    is_put_back: bool = False
    """Its state is older than what it has published, and catches up."""
    put_back_at_s: float = 0.0
    canary: int | None = None
    """The last number of the source's canary that it has read."""


class Standby(msgspec.Struct, frozen=True):
    """A definition that readers left, and that is kept fed."""

    view: str
    group: str
    since_s: float
    """When they left it."""
    until_s: float
    is_ready: bool
    """It is computed: to go back is at once."""


class Epochs(msgspec.Struct, frozen=True):
    """What the last epochs took, and all of them together."""

    count: int = 0
    records: int = 0
    changes: int = 0
    records_per_s: float = 0.0
    job_ms: float = 0.0
    publish_ms: float = 0.0
    behind_p50_ms: float = 0.0
    behind_p99_ms: float = 0.0
    spark: dict[str, float] = {}
    """From the streaming query's own progress: how long each part of a trigger took, and rows a second."""


class State(msgspec.Struct, frozen=True):
    at_s: float = 0.0
    pid: int = 0
    views: dict[str, ViewStatus] = {}
    groups: dict[str, GroupStatus] = {}
    epochs: Epochs = Epochs()
    rss_mb: dict[str, float] = {}
    problem: str = ""
    sinks: list[SinkStatus] = []
    """Of what readers use."""
    standbys: list[Standby] = []
    beside: list[SinkStatus] = []
    """Of the further generations that are fed."""


class Registry:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def groups(self) -> Path:
        return self.folder / GROUPS

    @property
    def copies(self) -> Path:
        return self.folder / COPIES

    def wanted(self) -> Wanted:
        """Raises StateError where it cannot be read, or is gone while views are kept: that nobody wants them is said by
        an empty one."""
        found = _read(self.folder / WANTED, Wanted)
        if found is None and (kept := self.state().views):
            raise StateError(
                f"{self.folder / WANTED} is gone", detail=f"views are kept: {', '.join(kept)}", hint=_HELPS[WANTED]
            )
        return found or Wanted()

    def is_known(self) -> bool:
        """Whether anybody has applied anything yet."""
        return (self.folder / WANTED).exists()

    def changed_at_ns(self) -> int:
        """When something was last applied: asked often, so without reading it."""
        try:
            return (self.folder / WANTED).stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def want(self, wanted: Wanted) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / WANTED, msgspec.json.encode(wanted))

    def state(self) -> State:
        return _read(self.folder / STATE, State) or State()

    def note(self, state: State) -> None:
        write_whole(self.folder / STATE, msgspec.json.encode(state))

    def gaps(self) -> Gaps:
        return _read(self.folder / GAPS, Gaps) or Gaps()

    def note_gaps(self, gaps: Gaps) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / GAPS, msgspec.json.encode(gaps))

    def book(self) -> Book:
        return _read(self.folder / BOOK, Book) or Book()

    def note_book(self, book: Book) -> None:
        write_whole(self.folder / BOOK, msgspec.json.encode(book))

    def set_book_aside(self) -> Path:
        """A copy of it: the file itself stays until another is written."""
        aside = self.folder / BOOK_ASIDE.format(int(time.time()))
        write_whole(aside, (self.folder / BOOK).read_bytes())
        return aside

    def books_aside(self) -> list[Path]:
        return sorted(self.folder.glob(BOOK_ASIDE.format("*")))

    def is_kept(self, *, now_s: float | None = None) -> bool:
        """Whether a maintainer is at work."""
        return (time.time() if now_s is None else now_s) - self.state().at_s < STALE_S


STALE_S: Final = 15.0
_HELPS: Final = {WANTED: "headwater apply: it is written anew, as your files declare the views"}
"""The others are put back or begun anew by whoever keeps the views."""


def _read(file: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise StateError(
            f"{file} cannot be read", detail=str(error), hint=_HELPS.get(file.name, "headwater up")
        ) from error
