"""Who keeps the book: every decision is on disk before it is acted on; progress need not be at once.

A book that cannot be read is set aside, and one begun with what is known without it: what people had paused stays so,
and the places say the rest (stocktaking.py). Rebuilds that were under way are to be asked for again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from cdc.errors import StateError
from views.generation import Generation, GenerationState
from views.maintain.book import PAUSED_BY, Book, Held
from views.maintain.failpoints import reached
from views.maintain.registry import Registry, State, ViewState
from views.rebuild import Rebuild, RebuildState, Stage
from views.sinks.lane import LaneState

NOTE_S: Final = 1.0


class BookKeeper:
    """The one writer of the book."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.set_aside: Path | None = None
        """Where the book before lies, which could not be read just now."""
        self.book = self._read()
        self._noted, self._noted_at = self.book, 0.0
        self.lock = threading.RLock()
        """Held by who changes it."""

    @property
    def is_begun_anew(self) -> bool:
        """As long as one that was set aside lies there."""
        return bool(self._registry.books_aside())

    def _read(self) -> Book:
        """Cut off before the new one is written, it is begun once more."""
        try:
            return self._registry.book()
        except StateError:
            self.set_aside = self._registry.set_book_aside()
            book = Book(held=tuple(_held(_state(self._registry))))
            self._registry.note_book(book)
            return book

    def keep(self, book: Book) -> None:
        self.book = book
        self.flush()

    def put(self, rebuild: Rebuild) -> None:
        """In memory only, until the next note."""
        self.book = self.book.with_rebuild(rebuild)

    def known(self, rebuild: Rebuild) -> Rebuild:
        return self.book.rebuild(rebuild.id) or rebuild

    def enter(self, rebuild: Rebuild, stage: Stage) -> None:
        """Its progress begins anew: how far the stage before it was says nothing of this one."""
        began = {**rebuild.began, stage: time.time()}
        fresh = msgspec.structs.replace(rebuild, stage=stage, began=began, reason="", done=0, total=0, rows_per_s=0.0)
        self.put(fresh)
        self.flush()
        reached(f"rebuild-{stage.value.replace(' ', '-')}")

    def end(self, rebuild: Rebuild, state: RebuildState) -> None:
        self.put(msgspec.structs.replace(rebuild, state=state, ended_at_s=time.time()))
        self.flush()

    def generation(self, rebuild: Rebuild) -> Generation | None:
        return self.book.generation(rebuild.view, rebuild.sink, rebuild.number)

    def move(self, rebuild: Rebuild, state: GenerationState) -> None:
        generation = self.generation(rebuild)
        if generation is not None:
            self.keep(self.book.with_generation(generation.moved(state, time.time())))

    def note(self) -> None:
        """What has changed since, now and then."""
        if time.monotonic() - self._noted_at >= NOTE_S:
            self.flush()

    def flush(self) -> None:
        if self.book != self._noted:
            self._registry.note_book(self.book)
            self._noted, self._noted_at = self.book, time.monotonic()


def _state(registry: Registry) -> State:
    try:
        return registry.state()
    except StateError:
        return State()


def _held(state: State) -> Iterator[Held]:
    """What was paused when that was last told."""
    for view, status in state.views.items():
        if status.state is ViewState.HELD:
            yield Held(view, "", _by(status.reason), state.at_s)
    for sink in state.sinks:
        if sink.state is LaneState.PAUSED:
            yield Held(sink.view, sink.sink, _by(sink.reason), state.at_s)


def _by(reason: str) -> str:
    return reason.removeprefix(PAUSED_BY) if reason.startswith(PAUSED_BY) else ""
