"""What matched ▶ the outbox: exactly once, through crash and replay, in an order per owner.

    matches of one view before an offset ─▶ record ─▶ rows and the view's mark, in one transaction

The mark lies beside the rows and moves with them: what is recorded again from before the mark does nothing, and what
was cut off left neither rows nor mark. It is a view's and never goes back, also when old rows were forgotten; the mark
of alert_places is a generation's, and begins anew with a place that is filled again.

Owners are locked in the order of their names: views that are recorded at once wait for each other, and never for ever.
A number of an owner's sequence is taken under that lock, so who reads up to one has read all before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import psycopg

from alerts.clock import Clock, system_clock
from alerts.grouping import first_due
from alerts.moves import decoded, judged
from alerts.saved_search import SavedSearch
from alerts.store import by_ids
from cdc.errors import StateError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
HASH_BYTES: Final = 16

_MARK: Final = """
    insert into headwater.outbox_marks (view, topic_id, next_offset) values (%s, %s, 0)
    on conflict (view) do update set view = excluded.view
    returning topic_id, next_offset
"""
_MOVE: Final = """
    update headwater.outbox_marks set topic_id = %s, next_offset = %s, moved_at = now() where view = %s
"""
_OWNERS: Final = "select distinct owner from headwater.subscriptions where id = any(%s)"
_LOCK_OWNERS: Final = """
    insert into headwater.owners (owner) select unnest(%s::text[]) order by 1
    on conflict (owner) do update set owner = excluded.owner
    returning owner, last_sequence
"""
_COUNT_ON: Final = """
    update headwater.owners o set last_sequence = n.last_sequence
    from unnest(%s::text[], %s::bigint[]) n (owner, last_sequence) where o.owner = n.owner
"""
_KNOWN: Final = """
    select subscription_id, key_hash, event, position from headwater.outbox
    join unnest(%s::bigint[], %s::bytea[], %s::text[], %s::text[]) n (subscription_id, key_hash, event, position)
        using (subscription_id, key_hash, event, position)
"""
_INSERT: Final = """
    insert into headwater.outbox (owner, sequence, subscription_id, view, key, key_hash, event, version, position,
        before, after, reason, committed_at, recorded_at, due_at)
    values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
_TOLD: Final = """
    select subscription_id, key_hash, value from headwater.told_values
    join unnest(%s::bigint[], %s::bytea[]) n (subscription_id, key_hash) using (subscription_id, key_hash)
"""
_TELL: Final = """
    insert into headwater.told_values (subscription_id, key_hash, value, told_at)
    select n.*, %s from unnest(%s::bigint[], %s::bytea[], %s::numeric[]) n
    on conflict (subscription_id, key_hash) do update set value = excluded.value, told_at = excluded.told_at
"""


class Match(NamedTuple):
    """One event of one row for one saved search, as the matcher found it."""

    subscription_id: int
    key: bytes
    """The key's columns as JSON, as the view's topic has it."""
    event: str
    version: int
    """The change's offset in the view's topic."""
    position: str
    before: bytes | None = None
    after: bytes | None = None
    committed_at_us: int | None = None

    @property
    def item(self) -> Item:
        return self.subscription_id, key_hash(self.key)

    @property
    def committed_at(self) -> datetime | None:
        return None if self.committed_at_us is None else _EPOCH + timedelta(microseconds=self.committed_at_us)


Item = tuple[int, bytes]
"""A subscription's number and a key's hash."""


class Recorded(NamedTuple):
    rows: int
    """Newly written to the outbox."""
    is_replay: bool = False
    """The mark was there already: nothing was looked at."""


@dataclass(frozen=True, slots=True)
class _Row:
    match: Match
    reason: str


def mark(conn: psycopg.Connection, view: str) -> tuple[str, int] | None:
    """How far matching of a view is: everything before this offset of that topic is in the outbox."""
    row = conn.execute("select topic_id, next_offset from headwater.outbox_marks where view = %s", [view]).fetchone()
    return (row[0], row[1]) if row else None


def record(
    conn: psycopg.Connection,
    view: str,
    mark_offset: int,
    matches: Iterable[Match],
    *,
    topic_id: str = "",
    clock: Clock = system_clock,
) -> Recorded:
    """Writes the matches of everything before `mark_offset` in the view's topic. Safe to repeat at any time.

    `topic_id` is the topic's incarnation: offsets of another one begin anew. Matches of searches that are paused,
    expired, unsubscribed or gone are left out.
    """
    with conn.transaction():
        [(known_topic, start)] = conn.execute(_MARK, [view, topic_id]).fetchall()
        if known_topic == topic_id and mark_offset <= start:
            return Recorded(0, is_replay=True)
        new = _since(matches, start if known_topic == topic_id else 0, mark_offset)
        written = _write(conn, view, new, clock()) if new else 0
        conn.execute(_MOVE, [topic_id, mark_offset, view])
        return Recorded(written)


def key_hash(key: bytes) -> bytes:
    return blake2b(key, digest_size=HASH_BYTES).digest()


def _since(matches: Iterable[Match], start: int, end: int) -> list[Match]:
    found = [match for match in matches if match.version >= start]
    if any(match.version >= end for match in found):
        raise StateError("a match lies beyond the mark that it is recorded with", detail=f"the mark is {end}")
    return sorted(found, key=lambda match: match.version)


def _write(conn: psycopg.Connection, view: str, matches: Sequence[Match], now: datetime) -> int:
    ids = sorted({match.subscription_id for match in matches})
    sequences = _lock_owners(conn, ids)
    searches = {id_: s for id_, s in by_ids(conn, ids).items() if s.wish.view == view and s.silence(now) is None}
    wanted = [m for m in matches if (s := searches.get(m.subscription_id)) and m.event in s.wish.events]
    rows = _worth_telling(conn, _unknown(conn, wanted), searches, now)
    due = cache(lambda id_: first_due(searches[id_].wish, now))
    with conn.cursor() as cursor:
        cursor.executemany(
            _INSERT, [_values(view, row, searches, sequences, now, due(row.match.subscription_id)) for row in rows]
        )
    conn.execute(_COUNT_ON, [list(sequences), list(sequences.values())])
    return len(rows)


def _lock_owners(conn: psycopg.Connection, ids: Sequence[int]) -> dict[str, int]:
    """The last number of each owner's sequence, held until the end of the transaction."""
    owners = sorted(owner for (owner,) in conn.execute(_OWNERS, [ids]))
    return dict(conn.execute(_LOCK_OWNERS, [owners]).fetchall())


def _unknown(conn: psycopg.Connection, matches: Sequence[Match]) -> list[Match]:
    """Without those that are in the outbox already, and without repeats. Under the mark's lock nobody adds any."""
    if not matches:
        return []
    by_key = {(*match.item, match.event, match.position): match for match in reversed(matches)}
    known = conn.execute(_KNOWN, [list(column) for column in zip(*by_key, strict=True)])
    for id_, hash_, event, position in known:
        del by_key[id_, bytes(hash_), event, position]
    return list(reversed(by_key.values()))


def _worth_telling(
    conn: psycopg.Connection, matches: Sequence[Match], searches: Mapping[int, SavedSearch], now: datetime
) -> list[_Row]:
    told = _told(conn, {match.item for match in matches})
    rows, changed = list[_Row](), dict[Item, Decimal]()
    row = cache(decoded)
    for item, together in _by_change(matches):
        first, wish = together[0], searches[item[0]].wish
        verdict = judged(wish, [m.event for m in together], row(first.before), row(first.after), told.get(item))
        rows += [_Row(match, verdict.reasons[match.event]) for match in together if match.event in verdict.reasons]
        if verdict.told is not None and verdict.told != told.get(item):
            told[item] = changed[item] = verdict.told
    _tell(conn, changed, now)
    return rows


def _by_change(matches: Sequence[Match]) -> Iterator[tuple[Item, list[Match]]]:
    """The events of one change of one item for one search, in the order of the changes."""
    found: dict[tuple[int, Item], list[Match]] = defaultdict(list)
    for match in matches:
        found[match.version, match.item].append(match)
    for (_, item), together in found.items():
        yield item, together


def _told(conn: psycopg.Connection, items: set[Item]) -> dict[Item, Decimal]:
    rows = conn.execute(_TOLD, [[id_ for id_, _ in items], [hash_ for _, hash_ in items]])
    return {(id_, bytes(hash_)): value for id_, hash_, value in rows}


def _tell(conn: psycopg.Connection, changed: Mapping[Item, Decimal], now: datetime) -> None:
    if changed:
        ids, hashes = zip(*changed, strict=True)
        conn.execute(_TELL, [now, list(ids), list(hashes), list(changed.values())])


def _values(
    view: str, row: _Row, searches: Mapping[int, SavedSearch], sequences: dict[str, int], now: datetime, due: datetime
) -> list[Any]:
    match, owner = row.match, searches[row.match.subscription_id].owner
    sequences[owner] += 1
    before, after = (None if each is None else each.decode() for each in (match.before, match.after))
    return [
        owner, sequences[owner], match.subscription_id, view, match.key.decode(), key_hash(match.key), match.event,
        match.version, match.position, before, after, row.reason, match.committed_at, now, due,
    ]  # fmt: skip
