"""A saved search as its owner sees it: what they asked for (Wish), and what became of it (SavedSearch). Values only.

A wish is what HTTP, the command line and the table agree on, field by field; wish_reading.py makes one of what a person
wrote. The matcher knows less of it (alerts/subscription.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, time
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, get_args
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

EventName = Literal["entered", "left", "changed", "dropped", "rose"]
ChannelName = Literal["feed", "webhook", "email", "kafka"]
Frequency = Literal["instant", "hourly", "daily", "weekly"]
Unit = Literal["amount", "percent"]
EVENTS: Final[tuple[str, ...]] = get_args(EventName)
CHANNELS: Final[tuple[str, ...]] = get_args(ChannelName)
MOVES: Final = ("dropped", "rose")
LABEL_CHARACTERS_MAX: Final = 200
TARGET_CHARACTERS_MAX: Final = 2_000
COLUMNS_MAX: Final = 100
CAP_MAX: Final = 10_000
REENTER_S_MAX: Final = 2_592_000

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Minute = Annotated[str, Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
Aware = Annotated[datetime, Meta(tz=True)]


class Wish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that an owner can set."""

    view: Name
    query: dict[str, Any]
    """In the canonical JSON form (search/query_json.py), checked against the view."""
    events: tuple[EventName, ...] = ("entered",)
    columns: Annotated[tuple[Name, ...], Meta(max_length=COLUMNS_MAX)] = ()
    """Narrows `changed` to these; empty: any."""
    watched_column: Name | None = None
    threshold: Decimal | None = None
    """By how much the watched column has to move since it was last told; None: at all."""
    threshold_unit: Unit = "amount"
    reenter_s: Annotated[int, Meta(ge=0, le=REENTER_S_MAX)] | None = None
    """A row that enters again within that time is not told again; None: as the service has it."""
    channel: ChannelName = "feed"
    target: Annotated[str, Meta(max_length=TARGET_CHARACTERS_MAX)] = ""
    frequency: Frequency = "instant"
    time_zone: Name = "UTC"
    digest_hour: Annotated[int, Meta(ge=0, le=23)] = 8
    digest_weekday: Annotated[int, Meta(ge=1, le=7)] = 1
    """1 is Monday."""
    quiet_from: Minute | None = None
    quiet_to: Minute | None = None
    cap_per_day: Annotated[int, Meta(ge=1, le=CAP_MAX)] | None = None
    label: Annotated[str, Meta(max_length=LABEL_CHARACTERS_MAX)] = ""
    paused: bool = False
    expires_at: Aware | None = None

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.time_zone)

    @property
    def quiet_hours(self) -> tuple[time, time] | None:
        if self.quiet_from is None or self.quiet_to is None:
            return None
        return time.fromisoformat(self.quiet_from), time.fromisoformat(self.quiet_to)

    def fields(self) -> dict[str, Any]:
        """By name, as plain values: what a changed wish is read from again."""
        return dict(msgspec.to_builtins(self))


FIELDS: Final[tuple[str, ...]] = Wish.__struct_fields__


@dataclass(frozen=True, slots=True)
class SavedSearch:
    id: int
    owner: str
    wish: Wish
    unsubscribe_token: str = field(repr=False)
    created_at: datetime
    updated_at: datetime
    unsubscribed_at: datetime | None = None

    def silence(self, now: datetime) -> str | None:
        """Why nothing is told of it; None when it is active."""
        if self.unsubscribed_at is not None:
            return "unsubscribed"
        if self.wish.paused:
            return "paused"
        return "expired" if self.wish.expires_at is not None and self.wish.expires_at <= now else None

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> SavedSearch:
        """From a row of headwater.subscriptions, which is trusted."""
        wish = {name: _plain(row[name]) for name in FIELDS}
        return cls(
            row["id"],
            row["owner"],
            Wish(**wish),
            row["unsubscribe_token"],
            row["created_at"],
            row["updated_at"],
            row["unsubscribed_at"],
        )


def _plain(value: Any) -> Any:
    if isinstance(value, time):
        return value.strftime("%H:%M")
    return tuple(value) if isinstance(value, list) else value
