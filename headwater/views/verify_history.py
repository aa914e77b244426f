"""What was verified, when, by whom and with what result; and what is known to be wrong now. Two files beside the views:

    verified.jsonl   a line for every run, oldest first; the oldest go when there are too many
    wrong.json       keys that were found wrong and not yet found right, by view and place

Written by whoever verifies (the command line, the service), one at a time (a lock); read by anybody. Beside the views
and not in a database: it is there when a database is not, and costs the source nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from headwater.file_lock import locked
from views.maintain.group import write_whole

HISTORY: Final = "verified.jsonl"
WRONG: Final = "wrong.json"
LOCK: Final = "verified.lock"
BYTES_MAX: Final = 8 << 20
"""Of the history: beyond it the older half goes."""
KEYS_PER_PLACE_MAX: Final = 1_000
KEYS_SHOWN_MAX: Final = 20
VIEW: Final = "view"
"""The place that is the view itself, compared with its SQL in Postgres; the others are named by their sink."""


class Why(StrEnum):
    ON_DEMAND = "on demand"
    SAMPLE = "sample"
    SCHEDULE = "schedule"
    SWITCH = "before a switch"
    REPAIR = "repair"


class PlaceResult(msgspec.Struct, frozen=True):
    place: str
    rows: int
    """Looked at."""
    missing: int = 0
    extra: int = 0
    different: int = 0
    unsettled: int = 0
    lsn: str = ""
    """Everything committed before it was included."""
    generation: str = ""
    keys: tuple[str, ...] = ()
    """Some of those that are wrong."""
    note: str = ""
    """Why it was not looked at."""

    @property
    def is_equal(self) -> bool:
        return not (self.missing or self.extra or self.different or self.unsettled)


class VerifyRun(msgspec.Struct, frozen=True):
    view: str
    why: Why
    by: str
    began_at_us: int
    took_s: float
    places: tuple[PlaceResult, ...]
    runs: int = 1
    """How many are told together: samples that found nothing are."""
    repaired: tuple[str, ...] = ()
    """Keys that were told again."""

    @property
    def is_equal(self) -> bool:
        return all(place.is_equal for place in self.places)

    @property
    def rows(self) -> int:
        return sum(place.rows for place in self.places)


class WrongKey(msgspec.Struct, frozen=True):
    kind: str
    since_us: int
    lsn: str = ""


Wrong = dict[str, dict[str, dict[str, WrongKey]]]
"""By view, place and key."""
IsTheirs = Callable[[str, str], bool]
"""Whether a row of a view, named by its key as JSON, is to be erased."""


class VerifyHistory:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def runs(self, view: str = "", runs_max: int | None = None) -> list[VerifyRun]:
        """Newest first."""
        found: list[VerifyRun] = []
        for line in reversed(self._lines()):
            with suppress(msgspec.MsgspecError):  # a line that was cut off by a crash
                run = msgspec.json.decode(line, type=VerifyRun)
                if view in ("", run.view):
                    found.append(run)
            if runs_max is not None and len(found) >= runs_max:
                break
        return found

    def wrong(self) -> Wrong:
        """What is known to be wrong now."""
        try:
            return msgspec.json.decode((self._folder / WRONG).read_bytes(), type=Wrong)
        except (FileNotFoundError, msgspec.MsgspecError):
            return {}

    def add(
        self,
        run: VerifyRun,
        wrong: Mapping[str, Sequence[tuple[str, str]]] | None = None,
        looked: Collection[str] | None = None,
        *,
        is_told: bool = True,
    ) -> None:
        """A run, with what was wrong by place. `looked` are the keys that it looked at; None is all. A run that is not
        told only says what is right now."""
        with locked(self._folder / LOCK):
            known = self.wrong()
            after = noted(known, run, wrong or {}, looked)
            if after != known:
                write_whole(self._folder / WRONG, msgspec.json.encode(after))
            if is_told:
                self._append(msgspec.json.encode(run))

    def keep_only(self, views: Collection[str]) -> None:
        """Views that are gone have nothing wrong any more."""
        if all(view in views for view in self.wrong()):
            return
        with locked(self._folder / LOCK):
            left = {view: places for view, places in self.wrong().items() if view in views}
            write_whole(self._folder / WRONG, msgspec.json.encode(left))

    def count_noted(self, is_theirs: IsTheirs) -> int:
        """Runs that name a row that is to be erased, and such rows that are known to be wrong."""
        rows = sum(
            is_theirs(view, key) for view, places in self.wrong().items() for keys in places.values() for key in keys
        )
        return rows + sum(_names(line, is_theirs) for line in self._lines())

    def erase_noted(self, is_theirs: IsTheirs) -> int:
        """What else is known to be wrong stays so."""
        with locked(self._folder / LOCK):
            found = self.count_noted(is_theirs)
            if found:
                left = [line for line in self._lines() if not _names(line, is_theirs)]
                write_whole(self._folder / HISTORY, b"".join(line + b"\n" for line in left))
                write_whole(self._folder / WRONG, msgspec.json.encode(_without(self.wrong(), is_theirs)))
        return found

    def _lines(self) -> list[bytes]:
        try:
            return (self._folder / HISTORY).read_bytes().splitlines()
        except FileNotFoundError:
            return []

    def _append(self, line: bytes) -> None:
        file = self._folder / HISTORY
        if file.exists() and file.stat().st_size + len(line) > BYTES_MAX:
            lines = self._lines()
            write_whole(file, b"".join(each + b"\n" for each in lines[len(lines) // 2 :]))
        with file.open("ab") as out:
            out.write(line + b"\n")


def _names(line: bytes, is_theirs: IsTheirs) -> bool:
    try:
        run = msgspec.json.decode(line, type=VerifyRun)
    except msgspec.MsgspecError:
        return False
    shown = [key.partition(" ")[2] for place in run.places for key in place.keys]
    return any(is_theirs(run.view, key) for key in (*shown, *run.repaired))


def _without(wrong: Wrong, is_theirs: IsTheirs) -> Wrong:
    return {
        view: {
            place: {key: each for key, each in keys.items() if not is_theirs(view, key)}
            for place, keys in places.items()
        }
        for view, places in wrong.items()
    }


def noted(
    known: Wrong, run: VerifyRun, wrong: Mapping[str, Sequence[tuple[str, str]]], looked: Collection[str] | None
) -> Wrong:
    """What is wrong after a run: what it found, and what it did not look at."""
    places = dict(known.get(run.view, {}))
    for result in run.places:
        if result.note:
            continue
        before = places.get(result.place, {})
        left = {} if looked is None else {key: each for key, each in before.items() if key not in looked}
        for kind, key in wrong.get(result.place, ())[:KEYS_PER_PLACE_MAX]:
            since_us = before[key].since_us if key in before else run.began_at_us
            left[key] = WrongKey(kind, since_us, result.lsn)
        places[result.place] = left
    places = {place: keys for place, keys in places.items() if keys}
    return {view: each for view, each in {**known, run.view: places}.items() if each}


def counted(wrong: Sequence[tuple[str, str]]) -> tuple[int, int, int]:
    """How many are missing, extra and different."""
    kinds = [kind for kind, _ in wrong]
    return kinds.count("missing"), kinds.count("extra"), kinds.count("different")


def shown(wrong: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(f"{kind} {key}" for kind, key in wrong[:KEYS_SHOWN_MAX])


def now_us() -> int:
    return time.time_ns() // 1000
