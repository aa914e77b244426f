"""The searches in force, ready to be matched: in memory while they are few, in mapped files when they are many.

    few    a matcher in memory
    many   a base in files, mapped; what changed since in memory; every base is made by a process of its own

A base is stamped with the position of the log up to which it holds every search. Who begins anew maps it and goes on
from there: neither the table nor the queries are read again. A base that cannot be used is made anew from the table;
one that is old is followed by the next, so that there is never much of the log to be read.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from alerts.book import Book
from alerts.matcher.events import Change, Matches
from alerts.matcher.matcher import Matcher
from alerts.subscription import Entry
from cdc.errors import HeadwaterError, SinkUnavailable
from cdc.position import Position
from search.index import IndexDefinition, Row

MAPPED_MIN: Final = 50_000
"""Searches of a view from which on they lie in files."""
CHANGED_SHARE: Final = 0.2
"""Of a base: when so many have changed since, the next one is made."""
AGE_S_MAX: Final = 86_400.0
RECORDS_MAX: Final = 5_000_000
"""Of the log since a base: from then on, or from that age on, the next one is made."""
STOP_S_MAX: Final = 5.0
_MAKE: Final = (sys.executable, "-m", "alerts.making")


@dataclass(frozen=True)
class Making:
    """The next base: the one that is there, if any, with what changed since."""

    folder: Path
    definition: IndexDefinition
    has_base: bool
    changed: dict[int, Entry | None]
    seen: Sequence[Row]
    version: str


@dataclass(frozen=True)
class First:
    """A base of what the table says was in force there."""

    folder: Path
    definition: IndexDefinition
    book: Book
    at: Position


@dataclass
class Standing:
    """Of one view. Not for several threads at once."""

    definition: IndexDefinition
    folder: Path | None = None
    """Where bases lie; None: everything in memory."""
    mapped_min: int = MAPPED_MIN
    _matcher: Matcher = field(init=False)
    _based: int = field(default=0, init=False)
    """Searches in the base; 0 without one."""
    _based_at: Position | None = field(default=None, init=False)
    _made_at: float = field(default=0.0, init=False)
    _changed: dict[int, Entry | None] = field(default_factory=dict, init=False)
    """Since the base; None: gone."""
    _making: tuple[subprocess.Popen[bytes], dict[int, Entry | None]] | None = field(default=None, init=False)
    """The process, and what it was given of the changed ones."""

    def __post_init__(self) -> None:
        self._matcher = Matcher(self.definition)

    def resume(self) -> Position | None:
        """Maps the newest base, if there is one for the view as it is: how far it is."""
        found = self._mapped()
        if found is None:
            return None
        self._take(found)
        return self._based_at

    def begin(self, entries: Iterable[Entry]) -> None:
        """In memory: all that are in force."""
        self._matcher, self._based, self._based_at, self._changed = Matcher(self.definition), 0, None, {}
        for entry in entries:
            self.put(entry)

    def make_first(self, book: Book, at: Position) -> None:
        """Returns when there is a base to `resume` from. Raises SinkUnavailable when it could not be made."""
        assert self.folder is not None
        first = First(self.folder, self.definition, book, at)
        made = subprocess.run(_MAKE, input=pickle.dumps(first), capture_output=True, check=False)
        if made.returncode:
            why = made.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise SinkUnavailable("no base of saved searches could be made", detail="".join(why))

    def put(self, entry: Entry) -> None:
        self._matcher.put(entry)
        if self.folder is not None:
            self._changed[entry.id] = entry

    def remove(self, number: int) -> None:
        self._matcher.remove(number)
        if self.folder is not None:
            self._changed[number] = None

    def match(self, changes: Sequence[Change], now: datetime) -> Matches:
        return self._matcher.match(changes, now)

    def tend(self, at: Position) -> None:
        """Between two epochs, when it holds every search up to the position: begins the next base, or takes it."""
        if self._making is not None and self._making[0].poll() is not None:
            self._finish(*self._making)
        elif self._making is None and (self._is_due() or self._is_old(at)):
            self._make(at)

    @property
    def is_making(self) -> bool:
        return self._making is not None

    def close(self) -> None:
        """A base that is half made is never used."""
        if self._making is not None:
            self._making[0].kill()
            self._making[0].wait(STOP_S_MAX)
            self._making = None

    def _is_due(self) -> bool:
        least = self._based * CHANGED_SHARE if self._based else self.mapped_min
        return self.folder is not None and len(self._changed) > 0 and len(self._changed) >= least

    def _is_old(self, at: Position) -> bool:
        if self._based_at is None or at == self._based_at:
            return False
        return at.offset - self._based_at.offset >= RECORDS_MAX or time.time() - self._made_at >= AGE_S_MAX

    def _make(self, at: Position) -> None:
        assert self.folder is not None
        given = dict(self._changed)
        making = Making(self.folder, self.definition, self._based > 0, given, self._matcher.seen, str(at))
        process = subprocess.Popen(_MAKE, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert process.stdin is not None
        with process.stdin as stdin:
            pickle.dump(making, stdin)
        self._making = process, given

    def _finish(self, process: subprocess.Popen[bytes], given: dict[int, Entry | None]) -> None:
        self._making = None
        found = self._mapped() if process.returncode == 0 else None
        if found is None:
            return  # it is due again; until then everything is in memory
        later = {number: entry for number, entry in self._changed.items() if given.get(number, self) is not entry}
        self._take(found)
        for number, entry in later.items():
            self.remove(number)
            if entry is not None:
                self.put(entry)

    def _take(self, matcher: Matcher) -> None:
        self._matcher, self._based, self._changed = matcher, len(matcher), {}
        self._based_at, self._made_at = Position.parse(matcher.version), matcher.made_at

    def _mapped(self) -> Matcher | None:
        if self.folder is None:
            return None
        try:
            return Matcher.open(self.folder, self.definition)
        except (HeadwaterError, OSError, ValueError, msgspec.MsgspecError):
            return None
