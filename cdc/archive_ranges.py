"""Which parts of the change log an archive holds: values, pure. Each commit of the archive carries them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class Held(msgspec.Struct, frozen=True, array_like=True):
    """All records of one era with offsets in [start, end)."""

    topic_id: str
    era: int
    start: int
    end: int

    def covers(self, era: int, start: int, end: int) -> bool:
        return self.era == era and self.start <= start and end <= self.end

    def __str__(self) -> str:
        return f"{self.era}:{self.start} to {self.era}:{self.end}"


class Ranges(msgspec.Struct, frozen=True):
    """In the order in which they were archived; one for each era, and one more for each gap that was accepted."""

    held: tuple[Held, ...] = ()

    def __str__(self) -> str:
        return ", ".join(map(str, self.held)) or "nothing"

    def plus(self, new: Held) -> Ranges:
        last = self.held[-1] if self.held else None
        if last is not None and (last.topic_id, last.era, last.end) == (new.topic_id, new.era, new.start):
            return Ranges((*self.held[:-1], Held(last.topic_id, last.era, last.start, new.end)))
        return Ranges((*self.held, new))

    def next_offset(self, topic_id: str, first: int) -> int:
        """Where archiving that topic goes on; `first` if it has not begun."""
        return max((held.end for held in self.held if held.topic_id == topic_id), default=first)

    def reach(self, topic_id: str, low: int) -> int:
        """The least offset from which the topic is held without a gap up to `low`, or beyond it."""
        reached = low
        for held in reversed(self.held):
            if held.topic_id == topic_id and held.start < reached <= held.end:
                reached = held.start
        return reached

    def within(self, topic_id: str, start: int, end: int) -> Iterator[Held]:
        """The parts of [start, end), in order."""
        for held in self.held:
            begin, until = max(start, held.start), min(end, held.end)
            if held.topic_id == topic_id and begin < until:
                yield Held(topic_id, held.era, begin, until)
