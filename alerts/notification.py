"""What one owner is told at one time: the value between the outbox and the channels.

Grouping makes it, a channel delivers it. Its id is the same over all attempts and after any crash, so a receiver that
has seen the id has seen the news. Rows are as the view's topic has them: JSON values by column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from cdc.errors import ConfigurationError

ID_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
"""It goes into headers and is signed together with other parts, joined by dots: neither may be forged with it."""

Row = Mapping[str, object]


class Event(StrEnum):
    """What happened to a row, seen from a saved search."""

    ENTERED = "entered"
    LEFT = "left"
    CHANGED = "changed"
    DROPPED = "dropped"
    ROSE = "rose"


@dataclass(frozen=True, slots=True)
class MatchedSearch:
    """A saved search of the owner that asked for this."""

    id: str
    label: str
    reason: str = ""
    """Why it matched, for people."""


@dataclass(frozen=True, slots=True)
class Item:
    """One row of one view, told once however many searches it matched."""

    view: str
    key: Row
    event: Event
    after: Row | None
    """None when the row is gone."""
    before: Row | None = None
    """None when the row is new."""
    searches: tuple[MatchedSearch, ...] = ()


@dataclass(frozen=True, slots=True)
class Notification:
    id: str
    owner: str
    sequence: int
    """Of this owner, ever increasing: where a feed goes on from."""
    created_at: datetime
    items: tuple[Item, ...]
    unsubscribe_url: str = field(default="", repr=False)
    """Holds a token: whoever has it can end the subscription. A POST to it does so, a GET only asks."""
    items_left_out: int = 0
    """Matched, too, but only counted: a message has its limits."""

    def __post_init__(self) -> None:
        if not ID_PATTERN.fullmatch(self.id):
            raise ConfigurationError(
                "not an id of a notification", detail="letters, digits, - and _ only, at most 100", hint="use a UUID"
            )

    @property
    def items_count(self) -> int:
        """Of all that matched, in the message or not."""
        return len(self.items) + self.items_left_out

    @property
    def labels(self) -> tuple[str, ...]:
        """Of all searches in it, each once, in their order."""
        return tuple(dict.fromkeys(search.label for item in self.items for search in item.searches))
