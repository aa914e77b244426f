"""What a person wrote ▶ a Wish: every field of its sort, the query checked against the view. Pure.

    {"view": "listing", "query": "city:paris price:..500000", "events": ["entered"], "channel": "email", …}

The query may be text, as people write it, or JSON; it is kept as JSON, in the one form that equal queries share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final
from zoneinfo import available_timezones

import msgspec

from alerts.saved_search import FIELDS, MOVES, Wish
from cdc.errors import ConfigurationError
from search.errors import QueryRefused, nearest
from search.index import IndexDefinition
from search.kinds import Kind
from search.query import Query
from search.query_json import from_json, to_json
from search.query_parser import parse

PERCENT_MAX: Final = 100
_NUMBERS: Final = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)
_TARGETS: Final = {
    "webhook": ("https://", "a URL, such as https://example.com/hook"),
    "email": ("@", "an address, such as ada@example.com"),
}


def read_wish(given: Mapping[str, Any], definition: IndexDefinition) -> Wish:
    """Raises ConfigurationError or QueryRefused, and says what to write."""
    _check_names(given)
    query = read_query(given.get("query", ""), definition)
    wish = _checked({**given, "view": definition.view, "query": to_json(query)})
    check_columns(wish, definition)
    return wish


def reread_wish(old: Wish, given: Mapping[str, Any], definition: Callable[[], IndexDefinition]) -> Wish:
    """The old one with what is given. The view is asked about that alone: what does not fit it any more can be paused,
    renamed, and mended field by field."""
    _check_names(given)
    fields = {**old.fields(), **given, "view": old.view, "query": old.query}
    if given.get("query", old.query) != old.query:
        fields["query"] = to_json(read_query(given["query"], definition()))
    wish = _checked(fields)
    if (wish.columns, wish.watched_column) != (old.columns, old.watched_column):
        check_columns(wish, definition())
    return wish


def _check_names(given: Mapping[str, Any]) -> None:
    unknown = [name for name in given if name not in FIELDS]
    if unknown:
        raise ConfigurationError(f"a saved search has no {unknown[0]}", hint=nearest(unknown[0], FIELDS))


def _checked(given: Mapping[str, Any]) -> Wish:
    wish = _converted(given)
    for check in (_check_events, _check_times, _check_target):
        check(wish)
    # No mail server tells Ada@ from ada@; who wants nothing any more at one means the other, too.
    return msgspec.structs.replace(wish, target=wish.target.lower()) if wish.channel == "email" else wish


def read_query(written: object, definition: IndexDefinition) -> Query:
    """Text or JSON."""
    if isinstance(written, str) and "\x00" in written:
        raise QueryRefused("a query holds a character that no row can have", hint="leave out the NUL")
    return parse(written, definition) if isinstance(written, str) else from_json(written, definition)


def _converted(given: Mapping[str, Any]) -> Wish:
    try:
        return msgspec.convert(given, Wish)
    except msgspec.ValidationError as error:
        told, _, where = str(error).partition(" - at `$.")
        field = where.rstrip("`") or "a field"
        raise ConfigurationError(
            f"not what {field} of a saved search can be",
            detail=told.replace("`", ""),
            hint="see docs/alerts.md",
        ) from None


def _check_events(wish: Wish) -> None:
    if not wish.events or len(set(wish.events)) != len(wish.events):
        raise ConfigurationError("a saved search has at least one event, each once", hint='"events": ["entered"]')
    moves = [event for event in wish.events if event in MOVES]
    if bool(moves) != (wish.watched_column is not None):
        raise ConfigurationError(
            "dropped and rose go with a column that is watched, and only they do",
            hint='"events": ["dropped"], "watched_column": "price", "threshold": 5, "threshold_unit": "percent"',
        )
    if wish.threshold is not None and not (moves and wish.threshold.is_finite() and wish.threshold >= 0):
        raise ConfigurationError("a threshold is a number from 0, for dropped and rose", hint='"threshold": 5')
    if "dropped" in moves and wish.threshold_unit == "percent" and (wish.threshold or 0) > PERCENT_MAX:
        raise ConfigurationError("nothing drops by more than 100 percent", hint='"threshold": 5')
    if wish.columns and "changed" not in wish.events:
        raise ConfigurationError("columns narrow the event changed, which is not wanted", hint='"events": ["changed"]')


def check_columns(wish: Wish, definition: IndexDefinition) -> None:
    """Those that it names are there, and what is watched is a number."""
    for name in (*wish.columns, *filter(None, [wish.watched_column])):
        if name not in definition.by_name:
            raise ConfigurationError(f"no column {name} in {definition.view}", hint=nearest(name, definition.by_name))
    if wish.watched_column is not None:
        column = definition.by_name[wish.watched_column]
        if column.kind not in _NUMBERS or column.is_array:
            numbers = [each.name for each in definition.columns if each.kind in _NUMBERS and not each.is_array]
            raise ConfigurationError(
                f"{column.name} is not a number, so it neither drops nor rises",
                hint=f"there are: {', '.join(numbers) or 'none'}",
            )


def _check_times(wish: Wish) -> None:
    if wish.time_zone not in _zones():
        raise ConfigurationError(f"no time zone {wish.time_zone!r}", hint="write Europe/Paris, or UTC")
    if (wish.quiet_from is None) != (wish.quiet_to is None) or (
        wish.quiet_from is not None and wish.quiet_from == wish.quiet_to
    ):
        raise ConfigurationError(
            "quiet hours are from one time to another", hint='"quiet_from": "22:00", "quiet_to": "07:00"'
        )


@cache
def _zones() -> frozenset[str]:
    """Those that mean the same on every machine: not the server's own, which has a name among them."""
    return frozenset(available_timezones() - {"localtime", "Factory"})


def check_expiry(wish: Wish, now: datetime) -> None:
    """Of one that its owner has just named: nothing would ever be told."""
    if wish.expires_at is not None and wish.expires_at <= now:
        raise ConfigurationError(
            "a saved search expires in the future",
            detail=f"expires_at is {wish.expires_at.isoformat()}, and it is {now.isoformat(timespec='seconds')}",
            hint='leave it out, or pause the search: "paused": true',
        )


def _check_target(wish: Wish) -> None:
    if wish.channel not in _TARGETS:
        if wish.target:
            raise ConfigurationError(f"a {wish.channel} has no target", hint="leave it out: there is one")
        return
    part, what = _TARGETS[wish.channel]
    if not wish.target.isprintable() or not wish.target.strip() or part not in wish.target:
        plain_http = wish.channel == "webhook" and wish.target.startswith("http://")
        if not plain_http:
            raise ConfigurationError(f"not a target for {wish.channel}: {wish.target!r}", hint=f"write {what}")
