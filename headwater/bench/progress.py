"""What a bench tells while it runs: to a terminal, or to nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[int], None]
"""Called with how many more there are now."""


class Progress(Protocol):
    def step(self, what: str) -> None:
        """A line about what begins now."""

    def amount(self, what: str, total: int) -> AbstractContextManager[Advance]:
        """A bar for the length of a block."""


class Silent:
    """Tells nobody."""

    def step(self, what: str) -> None:
        return

    @contextmanager
    def amount(self, what: str, total: int) -> Iterator[Advance]:
        yield lambda _more: None
