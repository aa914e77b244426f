"""What people ask of the process that keeps the views: a file an order, answered in the book.

Whoever gives an order writes its file whole and waits for the answer; the maintainer reads it, acts, answers, and
removes it, in that order. One that was cut off in between is read again: every order can be obeyed twice.
"""

from __future__ import annotations

import time
import uuid
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from views.maintain.group import write_whole
from views.rebuild import Origin

FOLDER: Final = "orders"
_SUFFIX: Final = ".json"


class Verb(StrEnum):
    REBUILD = "rebuild"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    SWITCH = "switch"
    ROLLBACK = "rollback"
    RETIRE = "retire"
    HOLD = "hold"
    """A sink, or a view with all its sinks, is no longer fed."""
    RELEASE = "release"


class Order(msgspec.Struct, frozen=True):
    verb: Verb
    view: str = ""
    sink: str = ""
    """Empty: all that it means something for."""
    others: tuple[str, ...] = ()
    """Views that are paused, or go on, together with it."""
    by: str = ""
    id: str = msgspec.field(default_factory=lambda: uuid.uuid4().hex[:12])
    at_s: float = msgspec.field(default_factory=time.time)
    rebuild: str = ""
    number: int | None = None
    origin: Origin = Origin.TOPIC
    switches: bool = True
    applied_at_s: float = 0.0

    @property
    def views(self) -> tuple[str, ...]:
        return (self.view, *self.others)


class Answer(msgspec.Struct, frozen=True):
    id: str
    is_done: bool
    fact: str
    detail: str = ""
    hint: str = ""
    at_s: float = 0.0


class Orders:
    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER

    def give(self, order: Order) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(self._folder / f"{order.at_s:017.6f}-{order.id}{_SUFFIX}", msgspec.json.encode(order))

    def waiting(self) -> list[tuple[Path, Order | None]]:
        """Oldest first; None for a file that is no order."""
        if not self._folder.is_dir():
            return []
        return [(file, _read(file)) for file in sorted(self._folder.glob(f"[0-9]*{_SUFFIX}"))]


def _read(file: Path) -> Order | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Order)
    except (OSError, msgspec.MsgspecError):
        return None
