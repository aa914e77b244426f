"""Section [site]: the pages for people who search and save searches."""

from __future__ import annotations

from pydantic import Field, SecretStr

from headwater.settings.base import Section


class SiteSettings(Section):
    """The pages for people: search, saved searches, the inbox."""

    secret: SecretStr = Field(
        default=SecretStr(""),
        description="What sign-in links and cookies are signed with; empty: one that is kept in the data folder",
    )
    session_hours: int = Field(
        default=24 * 14, ge=1, le=24 * 366, description="How long somebody stays signed in after opening a link"
    )
    link_minutes: int = Field(default=10, ge=1, le=24 * 60, description="How long a sign-in link can be opened")
    currency: str = Field(
        default="", max_length=4, description="Put before numbers of columns that are named price, amount or the like"
    )
