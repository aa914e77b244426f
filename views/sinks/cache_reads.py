"""Reading the cache: rows by key and by the columns of `lookup`, from the current generation, in one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import redis.asyncio
from redis.exceptions import RedisError

from cdc.errors import SinkUnavailable
from views.sinks.cache import RedisAddress, unversioned
from views.sinks.cache_keys import CacheKeys

CONNECTIONS_MAX: Final = 64
TIMEOUT_S: Final = 5.0
LOOKUP_ROWS_MAX: Final = 1_000

_GET: Final = """
local gen = redis.call('GET', KEYS[1])
if not gen then return false end
local places = {}
for i, key in ipairs(ARGV) do places[i] = string.sub(KEYS[1], 1, -4) .. gen .. ':row:' .. key end
return redis.call('MGET', unpack(places))
"""
_LOOKUP: Final = """
local gen = redis.call('GET', KEYS[1])
if not gen then return false end
local base = string.sub(KEYS[1], 1, -4) .. gen
local places = {}
for i, key in ipairs(redis.call('SMEMBERS', base .. ':by:' .. ARGV[1] .. ':' .. ARGV[2])) do
  if i > tonumber(ARGV[3]) then break end
  places[i] = base .. ':row:' .. key
end
if #places == 0 then return {} end
return redis.call('MGET', unpack(places))
"""


class CacheReads:
    """Safe to share between tasks of one event loop."""

    def __init__(self, address: RedisAddress) -> None:
        given: dict[str, Any] = {"ssl_ca_certs": address.ca_file} if address.ca_file else {}
        self._client = redis.asyncio.Redis.from_url(
            address.url, socket_timeout=TIMEOUT_S, max_connections=CONNECTIONS_MAX, **given
        )
        self._get = self._client.register_script(_GET)
        self._lookup = self._client.register_script(_LOOKUP)

    async def rows(self, source: str, view: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """In the order of the keys; None where there is no row."""
        if not keys:
            return []
        found = await self._asked(self._get, [CacheKeys(source, view).pointer], list(keys))
        return [None if row is None else unversioned(row) for row in found]

    async def by(self, source: str, view: str, column: str, value: bytes) -> list[bytes]:
        """The rows with that value, at most LOOKUP_ROWS_MAX; the value as JSON."""
        found = await self._asked(self._lookup, [CacheKeys(source, view).pointer], [column, value, LOOKUP_ROWS_MAX])
        rows = (unversioned(row) for row in found if row is not None)
        return [row for row in rows if row is not None and _has(row, column, value)]

    async def close(self) -> None:
        await self._client.aclose()

    async def _asked(self, script: Any, keys: list[str], arguments: list[Any]) -> list[bytes | None]:
        try:
            found: list[bytes | None] | None = await script(keys=keys, args=arguments)
        except RedisError as error:
            raise SinkUnavailable(
                "the cache cannot be read", detail=str(error) or type(error).__name__, hint="headwater status"
            ) from error
        if found is None:
            raise SinkUnavailable("the cache is being filled", detail=keys[0], hint="headwater status")
        return found


def _has(row: bytes, column: str, value: bytes) -> bool:
    """A set may name a row that has meanwhile expired and come back with another value."""
    return bytes(msgspec.json.decode(row, type=dict[str, msgspec.Raw]).get(column, b"")) == value
