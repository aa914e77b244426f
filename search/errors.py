"""What search refuses, each with the place in the query and what to write instead.

HeadwaterError
├── QueryRefused      a query that cannot be asked of this view
├── CursorRefused     a cursor that is damaged or belongs to another question
│   └── CursorExpired its point in time is gone: start again from the first page
└── SinkError         (cdc/errors.py) the index itself
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from cdc.errors import HeadwaterError

if TYPE_CHECKING:
    from collections.abc import Iterable


class QueryRefused(HeadwaterError):
    """`position` counts characters of the query's text from 1; 0 is nowhere."""

    def __init__(self, fact: str, *, position: int = 0, detail: str = "", hint: str = "") -> None:
        super().__init__(fact, detail=detail, hint=hint)
        self.position = position

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.fact, self.position, self.detail, self.hint)

    def at(self, text: str, position: int) -> QueryRefused:
        """The same refusal, pointing into the text; one that points already stays."""
        if self.position:
            return self
        shown = f"{text}\n        {' ' * (position - 1)}^"
        detail = f"{self.detail}\n        {shown}" if self.detail else shown
        return QueryRefused(f"{self.fact} (character {position})", position=position, detail=detail, hint=self.hint)


def _rebuild(fact: str, position: int, detail: str, hint: str) -> QueryRefused:
    return QueryRefused(fact, position=position, detail=detail, hint=hint)


class CursorRefused(HeadwaterError):
    """Not a cursor that this search gave."""


class CursorExpired(CursorRefused):
    """The point in time that the pages were read at is no longer kept."""


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint that names what was probably meant."""
    known = sorted(names)
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]}?"
    return f"there are: {', '.join(known)}" if known else "there are none"
