"""Saved searches for people and programs: what HTTP and the command line share. Everything goes by the owner's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import psycopg
from psycopg import errors

from alerts import inbox, quiet, store, trial, troubles, unsubscribing
from alerts.explaining import ToldValue, notes, told_value
from alerts.inbox import News
from alerts.matched import key_hash
from alerts.moves import decoded
from alerts.saved_search import SavedSearch, Wish
from alerts.waiting import Wanted, by_event, would_tell
from alerts.wish_reading import check_expiry, read_query, read_wish, reread_wish
from cdc.addresses import PostgresAddress
from cdc.errors import ConfigurationError, HeadwaterError, SourceError
from cdc.postgres import connect, explained
from headwater.api.shapes import Shapes
from headwater.deployment import Deployment
from headwater.known_views import KnownViews, Views
from headwater.previews import BY_WAITING, Previews
from headwater.settings.alerts import AlertsSettings
from headwater.targets import target_check
from search.explain import Explanation, explain
from search.index import decode_row
from search.query import is_relative, resolve
from search.query_json import from_json
from search.query_text import to_text

EVERYBODYS_MAX = 10_000


class Condition(NamedTuple):
    state: str
    """active, or why nothing is told: paused, expired, unsubscribed, broken or unreachable."""
    trouble: str | None = None
    """What is broken or unreachable, also of one that is silent for another reason."""


@dataclass(frozen=True)
class Explained:
    """Why a row matches a saved search now or does not, and what its owner was told of it."""

    search: SavedSearch
    key: bytes
    row: bytes | None
    explanation: Explanation | None
    """None when there is no such row, or the search is broken."""
    news: Sequence[inbox.News]
    condition: Condition
    told_value: ToldValue | None = None
    notes: Sequence[str] = ()
    """What else there is to say of why it was told, or was not."""


@dataclass(frozen=True)
class Trial:
    """Why a row matches a wish now or does not."""

    view: str
    key: bytes
    row: bytes | None
    explanation: Explanation | None


class SavedSearches:
    """Safe to share between threads: a connection is opened for each call."""

    def __init__(
        self,
        postgres: PostgresAddress,
        views: Views,
        settings: AlertsSettings | None = None,
        check_target: Callable[[Wish], None] = lambda _wish: None,
        api_url: str = "",
    ) -> None:
        self._postgres, self._views, self._check_target, self._api_url = postgres, views, check_target, api_url
        self.settings = settings or AlertsSettings()

    @classmethod
    def of(cls, deployment: Deployment, shapes: Shapes) -> SavedSearches:
        settings = deployment.settings
        views, check = KnownViews(deployment, shapes), target_check(settings)
        return cls(deployment.postgres, views, settings.alerts, check, settings.http.url)

    def create(self, owner: str, given: Mapping[str, Any]) -> SavedSearch:
        wish = self._read(given)
        check_expiry(wish, datetime.now(UTC))
        with self._connected() as conn:
            return store.create(conn, owner, wish, self.settings.limits(), self._estimate(wish))

    def listed(self, owner: str) -> list[SavedSearch]:
        with self._connected() as conn:
            return store.listed(conn, owner)

    def everybodys(self, after: int = 0) -> tuple[list[SavedSearch], int | None]:
        """As many as are read at a time, and after which one to go on; None when these are the last."""
        with self._connected() as conn:
            found = store.everybodys(conn, EVERYBODYS_MAX + 1, after)
        shown = found[:EVERYBODYS_MAX]
        return shown, shown[-1].id if len(found) > len(shown) else None

    def read(self, owner: str, id_: int) -> SavedSearch:
        with self._connected() as conn:
            return store.read(conn, owner, id_)

    def owner_of(self, id_: int) -> str:
        """For administrators. Raises NoSuchSearch."""
        with self._connected() as conn:
            found = store.by_ids(conn, [id_]).get(id_)
            return found.owner if found else store.read(conn, "", id_).owner

    def update(self, owner: str, id_: int, given: Mapping[str, Any]) -> SavedSearch:
        """Only what is given changes; the view cannot."""

        def changed(old: SavedSearch) -> Wish:
            if given.get("view", old.wish.view) != old.wish.view:
                raise ConfigurationError("a saved search stays with its view", hint="remove it and save another")
            wish = reread_wish(old.wish, given, lambda: self._views.definition(old.wish.view))
            if names_target(given):
                self._check_target(wish)
            return wish

        # The search is asked before the owner is locked: who matches meanwhile does not wait for it.
        old = self.read(owner, id_)
        wish = changed(old)
        if "expires_at" in given:
            check_expiry(wish, datetime.now(UTC))
        hits = self._estimate(wish)() if wish.query != old.wish.query else 0
        with self._connected() as conn:
            limits = self.settings.limits()
            is_named = names_target(given)
            return store.update(
                conn, owner, id_, changed, limits, lambda _wish: lambda: hits, self._wants, names_target=is_named
            )

    def remove(self, owner: str, id_: int) -> None:
        with self._connected() as conn:
            store.remove(conn, owner, id_)

    def secrets(self, search: SavedSearch) -> tuple[str, ...]:
        with self._connected() as conn:
            return store.endpoint_secrets(conn, search.owner, search.wish.channel, search.wish.target)

    def rotate_secret(self, owner: str, id_: int) -> str:
        search = self.read(owner, id_)
        with self._connected() as conn:
            return store.rotate_secret(conn, owner, search.wish.channel, search.wish.target)

    def test(self, owner: str, id_: int) -> int:
        """Sends a message that says only that it is one; the delivery's number."""
        search = self.read(owner, id_)
        self._check_target(search.wish)
        with self._connected() as conn:
            return trial.send(conn, search, self.settings.pace(self._api_url).base_url)

    def inbox(self, owner: str, after: int, most: int) -> list[News]:
        with self._connected() as conn:
            return inbox.after(conn, owner, after, most)

    def newest(self, owner: str, before: int, most: int) -> list[News]:
        with self._connected() as conn:
            return inbox.newest(conn, owner, before, most)

    def news_of(self, owner: str, id_: int, most: int) -> list[News]:
        with self._connected() as conn:
            return inbox.of_search(conn, owner, id_, most)

    def tallies(self, owner: str, since: datetime) -> dict[int, tuple[int, datetime]]:
        with self._connected() as conn:
            return inbox.tallies(conn, owner, since)

    def preview(self, given: Mapping[str, Any], days: int, *, each_alone: bool = False) -> dict[str, Any]:
        """How many rows match now, and what it would have told in the last days. Saves nothing."""
        return Previews(self._views, self.settings, self._quiet_since).of(
            self._read(given), days, each_alone=each_alone
        )

    def _quiet_since(self, view: str, at: datetime) -> list[quiet.Stretch]:
        with self._connected() as conn:
            return quiet.since(conn, view, at)

    def try_out(self, given: Mapping[str, Any], key: Sequence[str] | str) -> Trial:
        """Why a row matches a wish now or does not. Saves nothing."""
        wish = self._read(given)
        encoded, row = self._views.row(wish.view, key)
        return Trial(wish.view, encoded, row, self._explained(wish, row))

    def explain(self, owner: str, id_: int, key: Sequence[str] | str) -> Explained:
        """`key` as a person types it: a word for each column, or all in one text."""
        search = self.read(owner, id_)
        view, condition = search.wish.view, self.conditions([search])[search.id]
        encoded, row = self._views.row(view, key)
        last, hash_ = self._views.last_change(view, encoded), key_hash(encoded)
        with self._connected() as conn:
            news, value = inbox.of_item(conn, search.id, hash_), inbox.last_value(conn, search.id, hash_)
            stretches = quiet.around(conn, view, last.committed_at) if last and last.committed_at else []
        said = list(notes(search, last, news, stretches, self.settings.window_s))
        if self._is_relative(search.wish):
            said.append(BY_WAITING)
        if last is None and row is not None and not news:
            said.append(f"when it last changed is not known: view {view} has no history, WITH (sinks = 'warehouse')")
        told = told_value(search.wish, *value, decoded(row)) if value else None
        return Explained(search, encoded, row, self._explained(search.wish, row), news, condition, told, said)

    def _is_relative(self, wish: Wish) -> bool:
        definition = self._views.definition(wish.view)
        return troubles.misfit(wish, definition) is None and is_relative(from_json(wish.query, definition))

    def _explained(self, wish: Wish, row: bytes | None) -> Explanation | None:
        definition = self._views.definition(wish.view)
        if row is None or troubles.misfit(wish, definition):
            return None
        query = resolve(from_json(wish.query, definition), datetime.now(UTC))
        return explain(query, decode_row(definition, row), definition)

    def meant(self, token: str) -> list[unsubscribing.Meant]:
        with self._connected() as conn:
            return unsubscribing.meant(conn, token)

    def unsubscribe(self, token: str, *, everything: bool) -> list[unsubscribing.Meant]:
        with self._connected() as conn:
            return unsubscribing.unsubscribe(conn, token, everything=everything)

    def conditions(self, searches: Sequence[SavedSearch]) -> dict[int, Condition]:
        """By id: whether each tells anything, and if it does not though its owner wants it, why."""
        with self._connected() as conn:
            closed, now = troubles.unreachable(conn, searches), datetime.now(UTC)
        return {search.id: self._condition(search, closed.get(search.id), now) for search in searches}

    def _condition(self, search: SavedSearch, closed: str | None, now: datetime) -> Condition:
        silence, misfit = search.silence(now), self._misfit(search.wish)
        trouble = misfit or closed
        if silence is not None or trouble is None:
            return Condition(silence or "active", trouble)
        return Condition(troubles.BROKEN if misfit else troubles.UNREACHABLE, trouble)

    def _misfit(self, wish: Wish) -> str | None:
        try:
            return troubles.misfit(wish, self._views.definition(wish.view))
        except HeadwaterError as error:  # the view is gone, or has no alerts any more
            return error.fact

    def told(self, search: SavedSearch) -> dict[str, Any]:
        return self.all_told([search])[0]

    def told_with_secret(self, search: SavedSearch, *, is_shown: bool = True) -> dict[str, Any]:
        """With what a webhook is signed with, for who has just named it."""
        secrets = self.secrets(search) if is_shown else ()
        return {**self.told(search), **({"secret": secrets[0]} if secrets else {})}

    def all_told(self, searches: Sequence[SavedSearch]) -> list[dict[str, Any]]:
        """For JSON: all that its owner set, and its state."""
        conditions = self.conditions(searches)
        return [self._told(search, conditions[search.id]) for search in searches]

    def _told(self, search: SavedSearch, condition: Condition) -> dict[str, Any]:
        return {
            "id": search.id,
            "owner": search.owner,
            "state": condition.state,
            "trouble": condition.trouble,
            **{name: getattr(search.wish, name) for name in search.wish.__struct_fields__},
            "threshold": None if search.wish.threshold is None else float(search.wish.threshold),
            "query_text": self._text(search),
            "created_at": search.created_at,
            "updated_at": search.updated_at,
        }

    def _text(self, search: SavedSearch) -> str | None:
        """None for a view that is gone, or has changed so that the query does not fit it."""
        try:
            definition = self._views.definition(search.wish.view)
            return to_text(from_json(search.wish.query, definition), definition)
        except HeadwaterError:
            return None

    def _read(self, given: Mapping[str, Any]) -> Wish:
        view = given.get("view")
        if not isinstance(view, str) or not view:
            raise ConfigurationError("a saved search is about a view", hint='"view": "listing"')
        wish = read_wish(given, self._views.definition(view))
        self._check_target(wish)
        return wish

    def _estimate(self, wish: Wish) -> store.Estimate:
        query = read_query(wish.query, self._views.definition(wish.view))
        return lambda: self._views.count(wish.view, query) or 0

    def _wants(self, wish: Wish) -> Wanted:
        if self._misfit(wish):
            return by_event(wish)
        return would_tell(wish, self._views.definition(wish.view), datetime.now(UTC))

    def _connected(self) -> AbstractContextManager[psycopg.Connection]:
        return connected(self._postgres)


def names_target(given: Mapping[str, Any]) -> bool:
    """Whether a change says where to tell it, also where that is as it was."""
    return bool(given.keys() & {"channel", "target"})


@contextmanager
def connected(postgres: PostgresAddress) -> Iterator[psycopg.Connection]:
    """Raises SourceError where Headwater's schema is not there, or too old for saved searches."""
    try:
        with connect(postgres) as conn, explained(conn):
            yield conn
    except (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName) as error:
        raise SourceError(
            f"database {postgres.database} has no saved searches yet",
            detail=str(error).strip().splitlines()[0],
            hint="headwater migrate up",
        ) from error


def told_explanation(found: Explained) -> dict[str, Any]:
    """For JSON."""
    return {
        "id": found.search.id,
        "state": found.condition.state,
        "trouble": found.condition.trouble,
        "key": msgspec.Raw(found.key),
        **_told_match(found.row, found.explanation),
        "told_value": None if found.told_value is None else _with_digits(asdict(found.told_value)),
        "notes": found.notes,
        "news": [told_news(news) for news in found.news],
    }


def told_trial(found: Trial) -> dict[str, Any]:
    """For JSON."""
    return {"view": found.view, "key": msgspec.Raw(found.key), **_told_match(found.row, found.explanation)}


def _told_match(row: bytes | None, found: Explanation | None) -> dict[str, Any]:
    return {
        "row": None if row is None else msgspec.Raw(row),
        "matches": found is not None and found.matches,
        "explanation": None if found is None else asdict(found),
    }


def _with_digits(values: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers as numbers, with all their digits."""
    return {name: msgspec.Raw(str(v).encode()) if isinstance(v, Decimal) else v for name, v in values.items()}


def told_news(news: inbox.News) -> dict[str, Any]:
    rows = {name: None if row is None else msgspec.Raw(row.encode()) for name, row in _rows(news)}
    return {**asdict(news), "key": msgspec.Raw(news.key.encode()), **rows}


def _rows(news: inbox.News) -> Iterator[tuple[str, str | None]]:
    yield "before", news.before
    yield "after", news.after
