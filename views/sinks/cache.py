"""The cache: a view's rows in Redis, by key, newer version wins, decided and written in one script.

Who listens to the channel is told of the generation that readers use, and not of one that is filled beside it.

A row that is gone leaves a tombstone with its version for TOMBSTONE_S: until then no stale write brings it back. A
replay never begins later than the mark, which is seconds old, so the horizon is far beyond any that happens; a cache
that was cut off for longer is filled anew (`prepare`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec
import redis
from redis.exceptions import ConnectionError as Unreachable
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as TooLate

from cdc.errors import SinkError, SinkUnavailable, ViewError
from views.sinks.cache_keys import GONE, VERSION, CacheKeys
from views.sinks.sink import Change, GoneKeys, Mark, Refused, Sink, SinkKind, ViewShape, fingerprint

TOMBSTONE_S: Final = 7 * 24 * 3600
ROWS_PER_SCRIPT: Final = 500
"""Redis serves nobody else meanwhile: 500 rows take it some 2 ms."""
SCAN_COUNT: Final = 1_000
ROW_BYTES_MAX: Final = 64 << 20
RETRY_S: Final = 0.5
_PREFIX_BYTES: Final = len(VERSION) + 24

_APPLY: Final = """
local base, channel, tombstone_s, ttl_s = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local lookups = cjson.decode(ARGV[5])
local generation, shown = ARGV[6], redis.call('GET', KEYS[2])
local written = 0
if ARGV[7] == '1' and redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
local function forget(old, key)
  for _, column in ipairs(lookups) do
    local value = old[column]
    if value ~= nil then redis.call('SREM', base .. ':by:' .. column .. ':' .. value, key) end
  end
end
local function values(row)
  local found = {}
  if row then for _, pair in ipairs(cjson.decode(row)) do found[pair[1]] = pair[2] end end
  return found
end
for i = 8, #ARGV, 4 do
  local key, version, row, named = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local place = base .. ':row:' .. key
  local known = string.match(redis.call('GETRANGE', place, 0, PREFIX), '^{"_version":(%d+)')
  if not known or tonumber(known) < tonumber(version) then
    written = written + 1
    if #lookups > 0 then
      local old = redis.call('GET', place .. ':by')
      if old then forget(values(old), key) end
      if row == '' then redis.call('DEL', place .. ':by') else
        local new = values(named)
        for _, column in ipairs(lookups) do
          if new[column] then redis.call('SADD', base .. ':by:' .. column .. ':' .. new[column], key) end
        end
        redis.call('SET', place .. ':by', named)
        if ttl_s > 0 then redis.call('EXPIRE', place .. ':by', ttl_s) end
      end
    end
    if row == '' then
      redis.call('SET', place, '{"_version":' .. version .. ',"_gone":true}', 'EX', tombstone_s)
    elseif ttl_s > 0 then
      redis.call('SET', place, row, 'EX', ttl_s)
    else
      redis.call('SET', place, row)
    end
    if shown == false or shown == generation then
      local gone = row == '' and 'true' or 'false'
      redis.call('PUBLISH', channel, '{"key":' .. key .. ',"version":' .. version .. ',"gone":' .. gone .. '}')
    end
  end
end
return written
""".replace("PREFIX", str(_PREFIX_BYTES))

_FORGET: Final = """
local forgotten = 0
for _, place in ipairs(KEYS) do
  if string.match(redis.call('GET', place) or '', '"_gone":true}$') then
    forgotten = forgotten + redis.call('DEL', place)
  end
end
return forgotten
"""
T = TypeVar("T")


@dataclass(frozen=True)
class RedisAddress:
    url: str = field(repr=False)
    ca_file: str = ""

    def client(self) -> redis.Redis:
        given: dict[str, Any] = {"ssl_ca_certs": self.ca_file} if self.ca_file else {}
        return redis.Redis.from_url(self.url, socket_timeout=10, socket_connect_timeout=5, **given)


@dataclass(frozen=True)
class CacheKind(SinkKind):
    address: RedisAddress
    tombstone_s: int = TOMBSTONE_S

    name = "cache"

    def open(self, shape: ViewShape, generation: int) -> CacheSink:
        check_shape(shape)
        return CacheSink(self.address.client(), shape, generation, self.tombstone_s)

    def made_for(self, shape: ViewShape) -> str:
        return fingerprint(lookups(shape), _ttl_s(shape))

    def current(self, source: str, view: str) -> int | None:
        with self.address.client() as client:
            found: Any = _asked(lambda: client.get(CacheKeys(source, view).pointer))
            return None if found is None else int(found)

    def switch(self, source: str, view: str, generation: int | None) -> None:
        pointer = CacheKeys(source, view).pointer
        with self.address.client() as client:
            _asked(lambda: client.delete(pointer) if generation is None else client.set(pointer, generation))


class CacheSink(Sink):
    def __init__(self, client: redis.Redis, shape: ViewShape, generation: int, tombstone_s: int) -> None:
        self._client, self._generation = client, generation
        self._keys = CacheKeys(shape.source, shape.view)
        self._base = self._keys.generation(generation)
        self._lookups = lookups(shape)
        self._head = [
            self._base,
            self._keys.channel,
            tombstone_s,
            _ttl_s(shape),
            msgspec.json.encode(self._lookups),
            generation,
        ]
        self._script = client.register_script(_APPLY)
        self._was_marked = False
        """Whether the place had a mark when it was last asked: then it must still have one."""

    def prepare(self) -> None:
        """Refuses a Redis that would throw rows away by itself."""
        told: Any = _asked(lambda: self._client.info("memory"))
        policy = str(told.get("maxmemory_policy", "noeviction"))
        if policy != "noeviction":
            raise SinkError(
                f"Redis evicts rows by itself: maxmemory-policy is {policy}",
                detail="a row or a tombstone that is evicted makes the cache wrong without anybody noticing",
                hint="redis-cli config set maxmemory-policy noeviction",
            )

    def mark(self) -> Mark | None:
        found: Any = _asked(lambda: self._client.get(self._keys.mark(self._generation)))
        self._was_marked = found is not None
        return None if found is None else msgspec.json.decode(found, type=Mark)

    def apply(self, changes: Sequence[Change], mark: Mark) -> list[Refused]:
        refused: list[Refused] = []
        for start in range(0, len(changes), ROWS_PER_SCRIPT):
            self._write(changes[start : start + ROWS_PER_SCRIPT], refused)
        place, content = self._keys.mark(self._generation), msgspec.json.encode(mark)
        if not _asked(lambda: self._client.set(place, content, xx=self._was_marked)):
            raise self._emptied()
        self._was_marked = True
        return refused

    def again(self, changes: Sequence[Change]) -> list[Refused]:
        """Without the mark: the lane may be moving it."""
        if self.mark() is None:
            raise self._emptied()
        refused: list[Refused] = []
        self._write(changes, refused)
        return refused

    def _write(self, changes: Sequence[Change], refused: list[Refused]) -> None:
        arguments: list[Any] = [*self._head, int(self._was_marked)]
        for change in changes:
            row = b"" if change.after is None else versioned(change.after, change.version)
            if len(row) > ROW_BYTES_MAX:
                refused.append(Refused(change, f"a row of {len(row):,} bytes: the cache takes {ROW_BYTES_MAX:,}"))
                continue
            arguments += (change.key, change.version, row, self._named(change.after))
        places = [self._keys.mark(self._generation), self._keys.pointer]
        written: Any = _asked(lambda: self._script(keys=places, args=arguments))
        if written < 0:
            raise self._emptied()

    def _emptied(self) -> SinkUnavailable:
        self._was_marked = False
        return _unavailable("the cache was emptied", KeyError(self._keys.mark(self._generation)))

    def _named(self, row: bytes | None) -> bytes:
        """The values by which the row is looked up, as JSON texts; NULL is none."""
        if row is None or not self._lookups:
            return b"[]"
        values = msgspec.json.decode(row, type=dict[str, msgspec.Raw])
        pairs = [(name, bytes(values[name]).decode()) for name in self._lookups if bytes(values[name]) != b"null"]
        return msgspec.json.encode(pairs)

    def rows(self) -> Iterator[bytes]:
        found = (place for place in self._scan(f"{_escaped(self._base)}:row:*") if not place.endswith(b":by"))
        for places in _chunked(found):
            yield from self._rows(places)

    def read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        places = [self._keys.row(self._generation, key) for key in keys]
        stored: Any = _asked(lambda: self._client.mget(places)) if places else []
        rows = ((key, unversioned(row)) for key, row in zip(keys, stored, strict=True) if row is not None)
        return {key: row for key, row in rows if row is not None}

    def remembered(self, gone: GoneKeys, is_theirs: Callable[[bytes], bool]) -> int:
        return sum(len(places) for places in _chunked(self._places(gone)))

    def forget(self, gone: GoneKeys, is_theirs: Callable[[bytes], bool]) -> int:
        """Tombstones: whoever replays the topic from before them meets them again."""
        forgotten = 0
        for places in _chunked(self._places(gone)):
            found: Any = _asked(lambda places=places: self._client.eval(_FORGET, len(places), *places))  # type: ignore[misc]
            forgotten += int(found)
        return forgotten

    def _places(self, gone: GoneKeys) -> Iterator[bytes]:
        """Of these keys, each once. There may be millions of others, which are not remembered."""
        before, found = len(self._keys.row(self._generation, "").encode()), set[bytes]()
        for place in self._scanned(f"{_escaped(self._base)}:row:*"):
            if not place.endswith(b":by") and place not in found and place[before:] in gone:
                found.add(place)
                yield place

    def _rows(self, places: list[bytes]) -> Iterator[bytes]:
        found: Any = _asked(lambda: self._client.mget(places)) if places else []
        for row in found:
            if row is not None and (plain := unversioned(row)) is not None:
                yield plain

    def drop(self) -> None:
        for places in _chunked(self._scan(f"{_escaped(self._base)}:*")):
            _asked(lambda places=places: self._client.unlink(*places))  # type: ignore[misc]

    def close(self) -> None:
        self._client.close()

    def _scan(self, pattern: str) -> Iterator[bytes]:
        seen: set[bytes] = set()
        for place in self._scanned(pattern):
            if place not in seen:
                seen.add(place)
                yield place

    def _scanned(self, pattern: str) -> Iterator[bytes]:
        """Some of them may come more than once."""
        cursor: Any = 0
        found: Any
        while True:
            cursor, found = _asked(lambda cursor=cursor: self._client.scan(cursor, pattern, SCAN_COUNT))  # type: ignore[misc]
            yield from found
            if cursor == 0:
                return


def check_shape(shape: ViewShape) -> None:
    """Raises for a view that the cache cannot hold as it is declared."""
    lookups(shape)
    _ttl_s(shape)
    if VERSION in {column.name for column in shape.fields}:
        raise SinkError(
            f"a column of {shape.view} is named {VERSION}",
            detail="the cache keeps a row's version under that name",
            hint=f"give it another name: SELECT {VERSION} AS …",
        )


def lookups(shape: ViewShape) -> tuple[str, ...]:
    """The columns of WITH (lookup = '…'): rows can be found by their values."""
    wanted = tuple(word.strip() for word in shape.options.get("lookup", "").split(",") if word.strip())
    names = {column.name for column in shape.fields}
    for name in wanted:
        if name not in names:
            raise ViewError(
                f"{shape.view} has no column {name}",
                detail=f"lookup = '{', '.join(wanted)}'",
                hint=f"its columns are {', '.join(sorted(names))}",
            )
    return wanted


def versioned(row: bytes, version: int) -> bytes:
    """A row's JSON with its version in front."""
    rest = row[1:]
    return b'{"%s":%d%s%s' % (VERSION.encode(), version, b"" if rest == b"}" else b",", rest)


def unversioned(stored: bytes) -> bytes | None:
    """The row's own JSON again; None for a tombstone."""
    _head, _, rest = stored.partition(b",")
    if rest == b'"%s":true}' % GONE.encode():
        return None
    return b"{" + rest if rest else b"{}"


def _ttl_s(shape: ViewShape) -> int:
    text = shape.options.get("cache_ttl_s", "0")
    if not text.isdigit():
        raise ViewError(
            f"cache_ttl_s of {shape.view} is not a number of seconds", detail=text, hint="cache_ttl_s = '60'"
        )
    return int(text)


def _escaped(text: str) -> str:
    """For a pattern of SCAN."""
    return "".join(f"\\{letter}" if letter in "*?[]\\" else letter for letter in text)


def _chunked(places: Iterator[bytes]) -> Iterator[list[bytes]]:
    held: list[bytes] = []
    for place in places:
        held.append(place)
        if len(held) >= SCAN_COUNT:
            yield held
            held = []
    if held:
        yield held


def _asked(call: Callable[[], T]) -> T:
    """Tells what passes by itself from what does not."""
    try:
        return call()
    except (Unreachable, TooLate) as error:
        raise _unavailable("Redis cannot be reached", error) from error
    except ResponseError as error:
        text = str(error)
        if (
            text.startswith(("OOM", "LOADING", "READONLY", "BUSY", "MASTERDOWN", "MISCONF", "CLUSTERDOWN"))
            or "OOM" in text
        ):
            raise _unavailable("Redis takes nothing now", error) from error
        raise SinkError("Redis refused", detail=text, hint="headwater doctor") from error
    except RedisError as error:
        raise SinkError("Redis refused", detail=str(error), hint="headwater doctor") from error


def _unavailable(fact: str, error: Exception) -> SinkUnavailable:
    found = SinkUnavailable(fact, detail=str(error), hint="headwater status")
    found.retry_after_s = RETRY_S
    return found
