"""The keys of a generation that dead letters hold, as its lane knows them, and what of that could not be told yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from views.sinks.letters import LetterBox, Taken, Told
from views.sinks.sink import ViewShape


@dataclass
class HeldKeys:
    letters: LetterBox
    shape: ViewShape
    sink: str
    generation: int = 0
    keys: dict[bytes, int] = field(default_factory=dict)
    """With the version that was refused."""
    untold: list[Told] = field(default_factory=list)
    """The place's mark is past it, so nobody else knows."""

    def open(self, generation: int, *, anew: bool) -> None:
        """Of a generation; none of one that is filled from the beginning (`anew`), where every row is judged again."""
        if generation != self.generation:
            self.generation, self.untold = generation, []
        self.tell()
        if anew:
            self.letters.forget(self.shape.view, self.sink, generation)
        self.look()

    def look(self) -> None:
        """A person may have closed some."""
        self.keys = self.letters.held(self.shape.view, self.sink, self.generation)

    def add(self, told: Sequence[Told]) -> int:
        """How many were refused."""
        self.untold += told
        self.tell()
        return sum(not isinstance(each, Taken) for each in told)

    def tell(self) -> None:
        """Raises what the box raises, and keeps what it has to tell."""
        if not self.untold:
            return
        self.letters.tell(self.shape, self.sink, self.generation, self.untold)
        for each in self.untold:
            if isinstance(each, Taken):
                self.keys.pop(each.key, None)
            else:
                self.keys[each.change.key] = each.change.version
        self.untold = []
