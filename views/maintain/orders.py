"""What people ask of the process that keeps the views: a file an order, answered in the book.

Whoever gives an order writes its file whole and waits for the answer; the maintainer reads it, acts, answers, and
removes it, in that order. One that was cut off in between is read again: every order can be obeyed twice.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
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
    """The generation that is meant. Who goes over or back may name it, and then goes to no other."""
    origin: Origin = Origin.TOPIC
    switches: bool = True
    applied_at_s: float = 0.0

    @property
    def views(self) -> tuple[str, ...]:
        return (self.view, *self.others)


class SinkAnswer(msgspec.Struct, frozen=True):
    """What became of an order in one of the sinks that it meant."""

    sink: str
    number: int
    """The generation that its readers were to use."""
    is_done: bool
    fact: str
    detail: str = ""
    hint: str = ""

    @property
    def summary(self) -> str:
        return f"{self.sink}: {self.fact}{f' ({self.detail})' if self.detail else ''}"


class Answer(msgspec.Struct, frozen=True):
    id: str
    is_done: bool
    """All of it."""
    fact: str
    detail: str = ""
    hint: str = ""
    at_s: float = 0.0
    sinks: tuple[SinkAnswer, ...] = ()
    """Of what goes through sinks one by one."""


def together(order: Order, sinks: Sequence[SinkAnswer]) -> Answer:
    """Sinks do not wait for each other: what one could not do is told beside what the others did."""
    refused, now_s = [each for each in sinks if not each.is_done], time.time()
    if not refused:
        return Answer(order.id, True, ", ".join(each.fact for each in sinks), at_s=now_s, sinks=tuple(sinks))
    if len(sinks) == 1:
        [only] = refused
        return Answer(order.id, False, only.fact, only.detail, only.hint, now_s, tuple(sinks))
    return Answer(
        order.id,
        False,
        f"readers of the {' and the '.join(each.sink for each in refused)} of {order.view} stay where they are",
        "; ".join(each.summary for each in sinks),
        f"headwater {order.verb} {order.view}, again: it is done where it was not",
        now_s,
        tuple(sinks),
    )


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
