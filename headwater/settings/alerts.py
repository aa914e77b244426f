"""Section [alerts]: saved searches, how many and how broad, and how often somebody is told."""

from __future__ import annotations

from pydantic import Field

from alerts.moves import REENTER_S
from alerts.notifier import Pace
from alerts.store import Limits
from headwater.settings.base import Section


class AlertsSettings(Section):
    """Saved searches and what they tell."""

    searches_per_owner_max: int = Field(
        default=100, ge=1, le=1_000_000, description="Saved searches that one owner may have"
    )
    hits_max: int = Field(
        default=10_000, ge=1, le=1_000_000_000, description="A search that more rows match now is too broad to be saved"
    )
    burst_s: int = Field(
        default=60, ge=0, le=86_400, description="After a message, instant news for the same target is gathered so long"
    )
    items_per_message_max: int = Field(
        default=100, ge=1, le=10_000, description="Rows that one message shows; the others are counted in it"
    )
    reenter_s: int = Field(
        default=REENTER_S,
        ge=0,
        le=2_592_000,
        description="A row that enters a search again so soon is not told again; 0: always; each may say otherwise",
    )
    preview_days_max: int = Field(
        default=30, ge=1, le=3_650, description="How far back a preview counts what would have been told"
    )
    preview_rows_max: int = Field(
        default=50_000, ge=1, le=100_000_000, description="Versions of rows that a preview looks at"
    )
    keep_days: int = Field(
        default=90,
        ge=3,
        le=36_500,
        description="How long news and messages are kept after they were told, and the links in messages work",
    )
    public_url: str = Field(
        default="",
        pattern=r"^(https?://[^@\s]+[^@\s/])?$",
        description="What links in messages begin with; empty: the address of the HTTP API",
    )

    @property
    def window_s(self) -> float:
        """How soon a row that enters again is no news: never for longer than its first entry is remembered."""
        return float(min(self.reenter_s, (self.keep_days - 1) * 86_400))

    def limits(self) -> Limits:
        return Limits(self.searches_per_owner_max, self.hits_max)

    def pace(self, api_url: str) -> Pace:
        """`api_url` is where the HTTP API is, for links where `public_url` is not set."""
        return Pace(
            burst_s=float(self.burst_s),
            items_per_notification_max=self.items_per_message_max,
            base_url=(self.public_url or api_url).rstrip("/"),
        )
