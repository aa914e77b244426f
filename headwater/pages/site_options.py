"""What a saved search may be given besides, folded away in the forms: by how much a number has to move, which columns
count as a change, until when it is told. Pure; the form that saves and the one that changes share it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from alerts.saved_search import MOVES, Wish
from cdc.errors import ConfigurationError
from headwater.pages.forms import Form
from headwater.pages.site_words import column_label, is_money
from search.index import IndexDefinition

UNITS: Final = ("amount", "percent")
REENTER: Final = {
    "": "as usual",
    "0": "each time",
    "3600": "after an hour",
    "86400": "after a day",
    "604800": "after a week",
}
"""How soon a row that comes back is told again."""


@dataclass(frozen=True)
class Options:
    """As a form shows them."""

    threshold: str = ""
    unit: str = "amount"
    columns: Sequence[str] = ()
    expires_on: str = ""
    webhook: str = ""
    reenter: str = ""

    @property
    def is_any(self) -> bool:
        return bool(self.threshold or self.columns or self.expires_on or self.webhook or self.reenter)

    @property
    def reenter_choices(self) -> dict[str, str]:
        """With the one that a program chose."""
        is_ours = not self.reenter.isdigit() or self.reenter in REENTER
        return dict(REENTER) if is_ours else {**REENTER, self.reenter: f"after {self.reenter} s"}


def of_form(form: Form) -> Options:
    """What somebody wrote, also where it was refused."""
    unit = form.value("threshold_unit")
    return Options(
        form.value("threshold").strip(),
        unit if unit in UNITS else "amount",
        [name for name in form.values("columns") if name],
        form.value("expires_on").strip(),
        form.value("webhook").strip(),
        form.value("reenter_s").strip(),
    )


def of_wish(wish: Wish) -> Options:
    threshold = "" if wish.threshold is None else f"{wish.threshold.normalize():f}"
    reenter = "" if wish.reenter_s is None else str(wish.reenter_s)
    return Options(threshold, wish.threshold_unit, wish.columns, last_day(wish), reenter=reenter)


def asked(form: Form, events: Collection[str]) -> dict[str, Any]:
    """In the fields of a saved search. What an event was about that is not wanted any more is nothing."""
    shown, given = of_form(form), dict[str, Any]()
    if not set(MOVES) & set(events):
        given |= {"watched_column": None, "threshold": None}
    elif form.value("watched_column"):
        given["watched_column"] = form.value("watched_column")
        if form.values("threshold"):
            given |= {"threshold": _threshold(shown.threshold), "threshold_unit": shown.unit}
    if "changed" not in events or form.values("columns"):
        given["columns"] = shown.columns if "changed" in events else []
    if form.values("expires_on") and shown.expires_on != form.value("expires_was"):
        given["expires_at"] = _expiry(shown.expires_on, form.value("time_zone").strip())
    if form.values("reenter_s"):
        given["reenter_s"] = _reenter_s(shown.reenter)
    return given


def column_choices(definition: IndexDefinition | None) -> list[tuple[str, str]]:
    columns = definition.columns if definition else ()
    return [(each.name, column_label(each.name)) for each in columns if definition and each.name not in definition.key]


def unit_labels(watched: str, currency: str) -> dict[str, str]:
    return {"amount": currency if currency and is_money(watched) else "in all", "percent": "%"}


def last_day(wish: Wish) -> str:
    """On which it is still told, on its owner's clock."""
    if wish.expires_at is None:
        return ""
    return (wish.expires_at - timedelta(microseconds=1)).astimezone(wish.zone).date().isoformat()


def _threshold(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise ConfigurationError("by how much something moves is a number") from None


def _reenter_s(text: str) -> int | None:
    if text and not (text.isascii() and text.isdigit()):
        raise ConfigurationError("how soon something that comes back is told is a number of seconds")
    return int(text) if text else None


def _expiry(day: str, zone: str) -> str | None:
    """The end of that day, on their clock."""
    if not day:
        return None
    try:
        after = date.fromisoformat(day) + timedelta(days=1)
    except (ValueError, OverflowError):
        raise ConfigurationError("the last day is a date") from None
    return datetime.combine(after, time.min, _zone(zone)).isoformat()


def _zone(name: str) -> ZoneInfo | Any:
    """UTC for one that there is not: whoever reads the wish says so."""
    try:
        return ZoneInfo(name) if name else UTC
    except (OSError, ValueError, KeyError):
        return UTC
