"""API keys: a secret that its holder keeps, its hash in schema headwater, and what it may do.

A key is `hw_ID_SECRET`. Whoever reads the table learns no key: a secret has 256 bits, so a plain SHA-256 of it cannot
be guessed back. Keys are looked up again after KNOWN_S: a revoked one works no longer than that.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

from cdc.addresses import PostgresAddress
from cdc.errors import ConfigurationError
from cdc.postgres import connect, explained
from headwater.api.problems import Forbidden, NotFound, Unauthorized

SCOPES: Final = ("read", "alerts", "admin")
KNOWN_S: Final = 5.0
KNOWN_MAX: Final = 10_000
_PREFIX: Final = "hw"
_COLUMNS: Final = "id, scopes, label, created_at, expires_at, revoked_at, owner"


@dataclass(frozen=True, slots=True)
class ApiKey:
    id: str
    scopes: tuple[str, ...]
    label: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    owner: str = ""
    """Whose saved searches it may touch (owners.py)."""

    def is_valid(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)

    def may(self, scope: str) -> bool:
        return scope in self.scopes or "admin" in self.scopes


@dataclass(frozen=True, slots=True)
class KeyStore:
    postgres: PostgresAddress

    def create(
        self, scopes: Collection[str], label: str = "", expires_at: datetime | None = None, owner: str = ""
    ) -> tuple[ApiKey, str]:
        """The key, and its text: told now and never again."""
        unknown = [scope for scope in scopes if scope not in SCOPES]
        if unknown or not scopes:
            raise ConfigurationError(
                f"no scope {', '.join(unknown) or 'given'}",
                detail=f"there are {', '.join(SCOPES)}",
                hint="--scope read",
            )
        id_, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        text = f"{_PREFIX}_{id_}_{secret}"
        with connect(self.postgres) as conn, explained(conn):
            row = (
                _rows(conn)
                .execute(
                    "insert into headwater.api_key (id, hash, scopes, label, expires_at, owner)"
                    f" values (%s, %s, %s, %s, %s, %s) returning {_COLUMNS}",
                    [id_, hashed(text), sorted(scopes), label, expires_at, owner],
                )
                .fetchone()
            )
        assert row is not None
        return _key(row), text

    def list(self) -> list[ApiKey]:
        with connect(self.postgres) as conn, explained(conn):
            rows = _rows(conn).execute(f"select {_COLUMNS} from headwater.api_key order by created_at")
            return [_key(row) for row in rows]

    def revoke(self, id_: str) -> None:
        with connect(self.postgres) as conn, explained(conn):
            done = conn.execute(
                "update headwater.api_key set revoked_at = coalesce(revoked_at, now()) where id = %s", [id_]
            )
            if done.rowcount == 0:
                raise NotFound(f"no key {id_}", hint="headwater keys list")

    def find(self, text: str) -> ApiKey | None:
        with connect(self.postgres) as conn, explained(conn):
            row = (
                _rows(conn)
                .execute(
                    f"select {_COLUMNS} from headwater.api_key where hash = %s",
                    [hashed(text)],
                )
                .fetchone()
            )
            return None if row is None else _key(row)

    def by_id(self, id_: str) -> ApiKey | None:
        """For who has shown its text before."""
        with connect(self.postgres) as conn, explained(conn):
            row = _rows(conn).execute(f"select {_COLUMNS} from headwater.api_key where id = %s", [id_]).fetchone()
            return None if row is None else _key(row)


class Access:
    """Decides who may ask. Without `is_required` everybody may: for a server that listens on loopback only."""

    def __init__(self, store: KeyStore, *, is_required: bool) -> None:
        self._store, self.is_required = store, is_required
        self._known: dict[bytes, tuple[float, ApiKey | None]] = {}

    def caller(self, authorization: str | None, scope: str) -> str:
        """Who asks: the key's id, or empty. Raises Unauthorized or Forbidden."""
        key = self.key(authorization, scope)
        return key.id if key else ""

    def key(self, authorization: str | None, scope: str) -> ApiKey | None:
        """The key that asks; None where it may be done without. Raises Unauthorized or Forbidden."""
        if not authorization:
            if self.is_required:
                raise Unauthorized("a key is needed", hint="Authorization: Bearer hw_…; headwater keys create")
            return None
        kind, _, text = authorization.partition(" ")
        key = self._find(text.strip()) if kind.lower() == "bearer" else None
        if key is None or not key.is_valid(datetime.now(UTC)):
            raise Unauthorized("this key is not known, has expired or was revoked", hint="headwater keys list")
        if not key.may(scope):
            raise Forbidden(
                f"key {key.id} may not do this",
                detail=f"it takes {scope}, the key has {', '.join(key.scopes)}",
                hint=f"headwater keys create --scope {scope}",
            )
        return key

    def known(self, authorization: str | None, scope: str) -> str | None:
        """The same, without asking the database: None when it would have to."""
        if not authorization:
            return self.caller(authorization, scope)
        at, _ = self._known.get(hashed(authorization.partition(" ")[2].strip()), (float("-inf"), None))
        return None if time.monotonic() - at > KNOWN_S else self.caller(authorization, scope)

    def _find(self, text: str) -> ApiKey | None:
        digest, now = hashed(text), time.monotonic()
        at, key = self._known.get(digest, (float("-inf"), None))
        if now - at > KNOWN_S:
            key = self._store.find(text)
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[digest] = (now, key)
        return key


def hashed(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _rows(conn: psycopg.Connection) -> psycopg.Cursor[dict[str, Any]]:
    return conn.cursor(row_factory=dict_row)


def _key(row: dict[str, Any]) -> ApiKey:
    return ApiKey(**{**row, "scopes": tuple(row["scopes"])})
