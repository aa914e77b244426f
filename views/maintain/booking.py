"""Who keeps the book: every decision is on disk before it is acted on; progress need not be at once."""

from __future__ import annotations

import threading
import time
from typing import Final

import msgspec

from views.generation import Generation, GenerationState
from views.maintain.book import Book
from views.maintain.failpoints import reached
from views.maintain.registry import Registry
from views.rebuild import Rebuild, RebuildState, Stage

NOTE_S: Final = 1.0


class BookKeeper:
    """The one writer of the book."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.book = registry.book()
        self._noted, self._noted_at = self.book, 0.0
        self.lock = threading.RLock()
        """Held by who changes it."""

    def keep(self, book: Book) -> None:
        self.book = book
        self.flush()

    def put(self, rebuild: Rebuild) -> None:
        """In memory only, until the next note."""
        self.book = self.book.with_rebuild(rebuild)

    def known(self, rebuild: Rebuild) -> Rebuild:
        return self.book.rebuild(rebuild.id) or rebuild

    def enter(self, rebuild: Rebuild, stage: Stage) -> None:
        began = {**rebuild.began, stage: time.time()}
        self.put(msgspec.structs.replace(rebuild, stage=stage, began=began, reason=""))
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
