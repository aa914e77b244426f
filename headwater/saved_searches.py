"""Saved searches for people and programs: what HTTP and the command line share. Everything goes by the owner's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg import errors

from alerts import inbox, store, trial, unsubscribing
from alerts.inbox import News
from alerts.outbox import key_hash
from alerts.previewing import count_events
from alerts.saved_search import SavedSearch, Wish
from alerts.wish_reading import read_query, read_wish
from cdc.addresses import PostgresAddress
from cdc.errors import ConfigurationError, HeadwaterError, SourceError
from cdc.postgres import connect, explained
from headwater.api.shapes import Shapes
from headwater.deployment import Deployment
from headwater.known_views import KnownViews, Views
from headwater.settings.alerts import AlertsSettings
from headwater.targets import target_check
from search.explain import Explanation, explain
from search.index import decode_row
from search.query import resolve
from search.query_json import from_json
from search.query_text import to_text

EVERYBODYS_MAX = 10_000


@dataclass(frozen=True)
class Explained:
    """Why a row matches a saved search now or does not, and what its owner was told of it."""

    search: SavedSearch
    key: bytes
    row: bytes | None
    explanation: Explanation | None
    """None when there is no such row."""
    news: Sequence[inbox.News]


class SavedSearches:
    """Safe to share between threads: a connection is opened for each call."""

    def __init__(
        self,
        postgres: PostgresAddress,
        views: Views,
        settings: AlertsSettings | None = None,
        check_target: Callable[[Wish], None] = lambda _wish: None,
    ) -> None:
        self._postgres, self._views, self._check_target = postgres, views, check_target
        self.settings = settings or AlertsSettings()

    @classmethod
    def of(cls, deployment: Deployment, shapes: Shapes) -> SavedSearches:
        settings = deployment.settings
        return cls(deployment.postgres, KnownViews(deployment, shapes), settings.alerts, target_check(settings))

    def create(self, owner: str, given: Mapping[str, Any]) -> SavedSearch:
        wish = self._read(given)
        with self._connected() as conn:
            return store.create(conn, owner, wish, self.settings.limits(), self._estimate(wish))

    def listed(self, owner: str) -> list[SavedSearch]:
        with self._connected() as conn:
            return store.listed(conn, owner)

    def everybodys(self) -> list[SavedSearch]:
        with self._connected() as conn:
            return store.everybodys(conn, EVERYBODYS_MAX)

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
            is_elsewhere = given.keys() & {"channel", "target"}
            return self._read({**old.wish.fields(), **given}, check=bool(is_elsewhere))

        # The search is asked before the owner is locked: who matches meanwhile does not wait for it.
        old = self.read(owner, id_)
        wish = changed(old)
        hits = self._estimate(wish)() if wish.query != old.wish.query else 0
        with self._connected() as conn:
            return store.update(conn, owner, id_, changed, self.settings.limits(), lambda _wish: lambda: hits)

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
            return trial.send(conn, search, self.settings.public_url)

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

    def preview(self, given: Mapping[str, Any], days: int) -> dict[str, Any]:
        """How many rows match now, and what it would have told in the last days. Saves nothing."""
        wish, days = self._read(given), min(days, self.settings.preview_days_max)
        definition, now = self._views.definition(wish.view), datetime.now(UTC)
        matching = self._views.count(wish.view, read_query(wish.query, definition))
        told: dict[str, Any] = {"view": wish.view, "query": wish.query, "matching": matching, "events": None}
        told["is_too_broad"] = matching is not None and matching > self.settings.hits_max
        if matching is None:
            told["matching_unknown"] = f"view {wish.view} is not in the search: WITH (sinks = 'search')"
        past = self._views.history(wish.view, now - timedelta(days=days), self.settings.preview_rows_max)
        if past is None:
            return {**told, "events_unknown": f"view {wish.view} has no history: WITH (sinks = 'warehouse')"}
        events = count_events(wish, past.versions, definition, now)
        looked = max((now - past.since) / timedelta(days=1), 1 / 24)
        return {**told, "events": events, "days": round(looked, 2), "per_day": round(sum(events.values()) / looked, 1)}

    def explain(self, owner: str, id_: int, key: Sequence[str]) -> Explained:
        search = self.read(owner, id_)
        definition = self._views.definition(search.wish.view)
        encoded, row = self._views.row(search.wish.view, key)
        found = None
        if row is not None:
            query = resolve(from_json(search.wish.query, definition), datetime.now(UTC))
            found = explain(query, decode_row(definition, row), definition)
        with self._connected() as conn:
            return Explained(search, encoded, row, found, inbox.of_item(conn, search.id, key_hash(encoded)))

    def meant(self, token: str) -> list[unsubscribing.Meant]:
        with self._connected() as conn:
            return unsubscribing.meant(conn, token)

    def unsubscribe(self, token: str, *, everything: bool) -> list[unsubscribing.Meant]:
        with self._connected() as conn:
            return unsubscribing.unsubscribe(conn, token, everything=everything)

    def told(self, search: SavedSearch) -> dict[str, Any]:
        """For JSON: all that its owner set, and its state."""
        return {
            "id": search.id,
            "owner": search.owner,
            "state": search.silence(datetime.now(UTC)) or "active",
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

    def _read(self, given: Mapping[str, Any], *, check: bool = True) -> Wish:
        view = given.get("view")
        if not isinstance(view, str) or not view:
            raise ConfigurationError("a saved search is about a view", hint='"view": "listing"')
        wish = read_wish(given, self._views.definition(view))
        if check:
            self._check_target(wish)
        return wish

    def _estimate(self, wish: Wish) -> store.Estimate:
        query = read_query(wish.query, self._views.definition(wish.view))
        return lambda: self._views.count(wish.view, query) or 0

    def _connected(self) -> AbstractContextManager[psycopg.Connection]:
        return connected(self._postgres)


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
    import msgspec

    return {
        "id": found.search.id,
        "state": found.search.silence(datetime.now(UTC)) or "active",
        "key": msgspec.Raw(found.key),
        "row": None if found.row is None else msgspec.Raw(found.row),
        "matches": found.explanation is not None and found.explanation.matches,
        "explanation": None if found.explanation is None else asdict(found.explanation),
        "news": [told_news(news) for news in found.news],
    }


def told_news(news: inbox.News) -> dict[str, Any]:
    import msgspec

    rows = {name: None if row is None else msgspec.Raw(row.encode()) for name, row in _rows(news)}
    return {**asdict(news), "key": msgspec.Raw(news.key.encode()), **rows}


def _rows(news: inbox.News) -> Iterator[tuple[str, str | None]]:
    yield "before", news.before
    yield "after", news.after
