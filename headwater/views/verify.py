"""Is a view what its SQL gives in Postgres? Every row, while both go on. The method, and why it is sound:

The view and a snapshot of Postgres never hold the same transactions by themselves: the view stands at an epoch's end,
and a commit is written to the WAL (and so may be in the view) a moment before snapshots see it. So a round is

    1. note the view's frontier f and the end t of its topic
    2. take a snapshot S (repeatable read); note the end h of the WAL after it
    3. wait until the frontier has passed h: now the view holds every transaction that S sees
    4. compare every row; wait until what was read from the store is published; read the topic from t on

What the view published before t was committed, and visible, before S (but for commits that wait for a synchronous
standby: 2 waits until there are none). So S lies between f and the frontier after 4, and a row's values at the ends of
all epochs in between are known: the one in the store, and those that the topic has for it since t.

Equal: Postgres' row is one of these values. A row that does not change in the window is then equal at S, exactly.
Suspect: it is none of them. Either the view is wrong, or S fell into an epoch that changed the row there and back,
or in several steps. Suspects are looked at again in a new round, with a new snapshot.
Different, for certain: a suspect of a quiet round, in which the log has no change of the view's tables from f to the
frontier after 4; then the SQL gives the same at f, S and there. It takes two rounds, because a server that stops a
process between writing its commit and showing it, for as long as an epoch takes, would break the sentence above. On a
busy database, a suspect with the same two values in ROUNDS_MAX rounds that the topic never mentioned. A suspect that
kept changing is counted as unsettled, not as different.

A row that never rests has many values in an epoch, and one snapshot hardly sees the last of them. So a few such rows
are watched: in step 2 of a round of their own Postgres is asked for them at as many moments as a second holds, each
between two ends of the WAL. One right after the last commit of an epoch has to show what the view had at that epoch's
end; one of any other moment proves nothing of a row that counts up. So only a row that is wrong by less than it changes
within two moments, some milliseconds, may pass for equal.

With `lock`, what is left is settled at once: a lock in share mode lets the writers of the view's tables finish and
holds new ones up until the frontier has passed the WAL's end. A lock is let go after its commit is visible, so view
and SQL then hold the same transactions. Writers wait for about an epoch and a heartbeat.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import msgspec
import psycopg
from psycopg import sql

from cdc.addresses import KafkaAddress, PostgresAddress, Source
from cdc.changelog import ChangeLog
from cdc.errors import ViewError
from cdc.events import ChangeEvent, End, TableName
from cdc.position import Lsn, Position
from cdc.postgres import connect, explained
from cdc.reader import read_range
from cdc.topics import find_state
from headwater.views.compare import Comparison, Differing, Kind, Look, chosen
from headwater.views.declared import tables_of
from headwater.views.kept import Frontiers, KeptView, includes, open_view
from headwater.views.moments import Shown, moments, pinned, snapshot, wal_end
from views.maintain.publisher import Frontier, view_topic
from views.maintain.registry import Registry, ViewState

ROUNDS_MAX: Final = 12
TIMEOUT_S: Final = 60.0
LOCK_TIMEOUT_MS: Final = 5_000
QUIET_RECORDS_MAX: Final = 100_000
"""A window with more records than that is taken for a busy one without reading it."""
WATCHED_MAX: Final = 100
"""So many rows that never rest are watched in a round."""
EXAMPLES: Final = 5
WRONG_MAX: Final = 1_000
COST_MAX: Final = 100_000.0
"""What some keys may cost Postgres, in its planner's units: beyond it, only a look at all rows is worth it."""

OnRows = Callable[[int], None]
_Record = dict[str, msgspec.Raw]
_Held = tuple[bytes | None, list[dict[str, bytes]]]
"""A value that the view had, and what Postgres showed right then."""


@dataclass(frozen=True)
class Verified:
    view: str
    rows_postgres: int
    rows_view: int
    counts: dict[Kind, int]
    unsettled: int
    examples: tuple[Differing, ...]
    is_cut: bool
    """More rows differ than were counted."""
    lsn: Lsn
    """Of the first snapshot: everything committed before it was compared."""
    position: Position
    rounds: int
    took_s: float
    compared_s: float = 0.0
    """Of that, what Postgres and we were busy with; the rest was waiting."""
    group: str = ""
    """The generation of the view that was looked at."""
    wrong: tuple[tuple[str, str], ...] = ()
    """What is wrong with which key; of very many, the first."""

    @property
    def is_equal(self) -> bool:
        return not any(self.counts.values()) and not self.unsettled


class TooCostly(ViewError):
    """Postgres would have to compute the whole view for some of its rows."""


class NotComputed(ViewError):
    """The view's SQL fails in Postgres."""


@dataclass(frozen=True)
class Round:
    comparison: Comparison
    look: Look
    lsn: Lsn
    start: Frontier
    end: Frontier
    topic_start: int
    compared_s: float


@dataclass
class Verifier:
    postgres: PostgresAddress
    kafka: KafkaAddress
    source: Source
    registry: Registry
    timeout_s: float = TIMEOUT_S
    frontiers: Frontiers = field(init=False)

    def __post_init__(self) -> None:
        self.frontiers = Frontiers(self.kafka, self.source)

    def verify(
        self,
        view: str,
        *,
        keys: Sequence[bytes] | None = None,
        examples: int = EXAMPLES,
        lock: bool = False,
        on_rows: OnRows = lambda _: None,
    ) -> Verified:
        """All rows, or those of some keys. Raises ViewError for a view that is not live, or that does not get on."""
        began = time.monotonic()
        kept = self._opened(view)
        first = self._round(kept, None if keys is None else chosen(kept.store, keys), on_rows, COST_MAX)
        suspects, changed = self._suspects(kept, first)
        found, rounds, last, compared_s = _Settled(dict(suspects)), 1, first, first.compared_s
        while suspects and not found.is_over and rounds < ROUNDS_MAX:
            rounds += 1
            if lock:
                suspects, changed = self._locked(kept, suspects.values()), set()
                found.settle(suspects, is_quiet=True)
                break
            last = self._round(kept, suspects.values(), on_rows)
            compared_s += last.compared_s
            found.leave_out(changed)
            suspects, changed = self._suspects(kept, last)
            found.settle(suspects, is_quiet=self._is_quiet(kept, last))
            if changed and not found.is_over:
                suspects = self._watched(kept, suspects, changed)
        found.leave_out(changed)
        differing = found.certain(suspects)
        return Verified(
            view,
            first.look.rows_postgres,
            first.look.rows_view,
            {kind: sum(each.kind is kind for each in differing) for kind in Kind},
            len(suspects) - len(differing),
            tuple(differing[:examples]),
            first.look.is_cut,
            first.lsn,
            first.end.position,
            rounds,
            time.monotonic() - began,
            compared_s,
            kept.group.spec.id,
            tuple((each.kind.value, each.key) for each in differing[:WRONG_MAX]),
        )

    def _opened(self, view: str) -> KeptView:
        kept = open_view(self.registry, self.frontiers.look(), view)
        status = self.registry.state().views.get(view)
        if status is not None and status.state is ViewState.PAUSED:
            raise ViewError(
                f"view {view} is paused, so it is not what Postgres has",
                detail=status.reason,
                hint=f"headwater apply, or headwater verify {view} --repair",
            )
        return kept

    def _round(
        self,
        kept: KeptView,
        suspects: Collection[Differing] | None,
        on_rows: OnRows,
        cost_max: float | None = None,
    ) -> Round:
        start = self._frontier(kept)
        topic_start = self._topic_end(kept.view)
        with snapshot(self.postgres, self.timeout_s) as (conn, lsn):
            self._wait(kept, includes(lsn), f"Postgres is at {lsn}")
            comparison, began = Comparison(kept, conn), time.monotonic()
            with computing(kept.view), explained(conn):
                if suspects and cost_max is not None:
                    _require_cheap(kept.view, comparison.cost(suspects), cost_max)
                look = comparison.all(on_rows) if suspects is None else comparison.again(suspects)
            compared_s = time.monotonic() - began
        return Round(comparison, look, lsn, start, self._all_published(kept), topic_start, compared_s)

    def _all_published(self, kept: KeptView) -> Frontier:
        """What was read from the store so far."""
        epoch = kept.epoch
        end = self._wait(kept, lambda frontier: frontier.offset >= epoch, f"its rows are at {epoch}")
        if end.group != kept.group.spec.id or end.era != kept.group.spec.era:
            raise _replaced(kept.view)
        return end

    def _locked(self, kept: KeptView, suspects: Collection[Differing]) -> dict[str, Differing]:
        tables = sql.SQL(", ").join(sql.Identifier(t.schema, t.name) for t in self._tables(kept))
        with connect(self.postgres) as conn, computing(kept.view), explained(conn), conn.transaction():
            conn.execute("select set_config('lock_timeout', %s, true)", [f"{LOCK_TIMEOUT_MS}ms"])
            conn.execute(sql.SQL("lock table only {} in share mode").format(tables))
            lsn = pinned(conn)
            self._wait(kept, includes(lsn), f"Postgres is at {lsn}")
            return dict(Comparison(kept, conn).again(suspects).differing)

    def _watched(
        self, kept: KeptView, suspects: Mapping[str, Differing], changing: Collection[str]
    ) -> dict[str, Differing]:
        """Without those of the changing ones that had, right after an epoch, what the view had at its end."""
        watched = [suspects[key] for key in sorted(changing)[:WATCHED_MAX]]
        topic_start = self._topic_end(kept.view)
        with connect(self.postgres) as conn, computing(kept.view), explained(conn):
            comparison, shown = Comparison(kept, conn), Shown([wal_end(conn)])
            for _ in moments(conn, self.timeout_s):
                shown.add(comparison.postgres_rows(watched), wal_end(conn))
        self._wait(kept, includes(shown.ends[-1]), f"Postgres is at {shown.ends[-1]}")
        stored = kept.read_anywhere([each.encoded for each in watched])
        self._all_published(kept)
        held: dict[str, list[_Held]] = {each.key: [] for each in watched}
        for key, record in self._records(kept, topic_start, held.keys()):
            held[key].append((_value(record["after"]), shown.after(_lsn(record))))
        for each in watched:  # one that rested meanwhile was the same at all of them
            held[each.key] = held[each.key] or [(stored.get(each.encoded), shown.rows)]

        equal = {
            key
            for key, values in held.items()
            if any(comparison.is_equal(rows.get(key), value) for value, moments_ in values for rows in moments_)
        }
        return {key: suspect for key, suspect in suspects.items() if key not in equal}

    def _tables(self, kept: KeptView) -> tuple[TableName, ...]:
        return tables_of(kept.group.plans[kept.view].root)

    def _frontier(self, kept: KeptView) -> Frontier:
        found = self.frontiers.look().get(kept.view)
        if found is None or found.group != kept.group.spec.id:
            raise _replaced(kept.view)
        return found

    def _wait(self, kept: KeptView, is_enough: Callable[[Frontier], bool], wanted: str) -> Frontier:
        found = self.frontiers.wait(kept.view, is_enough, self.timeout_s)
        if found is not None:
            return found
        at = self._frontier(kept)
        raise ViewError(
            f"view {kept.view} does not get on",
            detail=f"{wanted}, the view at {at.position} ({at.lsn}), for {self.timeout_s:g} s",
            hint="headwater status" if self.registry.is_kept() else "headwater up",
        )

    def _topic_end(self, view: str) -> int:
        state = find_state(self.kafka, view_topic(self.source, view))
        return state.high if state is not None else 0

    def _suspects(self, kept: KeptView, round_: Round) -> tuple[dict[str, Differing], set[str]]:
        """What differs, without the rows that had Postgres' value at the end of some epoch in the window; and of these
        the keys that changed in it."""
        left, changed = dict(round_.look.differing), set[str]()
        if not left:
            return {}, changed
        for key, value in self._published(kept, round_.topic_start, set(left)):
            changed.add(key)
            if key in left and round_.comparison.is_equal(left[key].postgres, value):
                del left[key]
        return left, changed & left.keys()

    def _published(self, kept: KeptView, topic_start: int, keys: Collection[str]) -> Iterator[tuple[str, bytes | None]]:
        """The values that those keys had at the ends of epochs since then."""
        for key, record in self._records(kept, topic_start, keys):
            yield key, _value(record["before"])
            yield key, _value(record["after"])

    def _records(self, kept: KeptView, topic_start: int, keys: Collection[str]) -> Iterator[tuple[str, _Record]]:
        """What the view has told of those keys since then."""
        topic = view_topic(self.source, kept.view)
        for chunk in read_range(self.kafka, topic, topic_start, self._topic_end(kept.view)):
            for raw in chunk:
                key = (raw.key or b"").decode()
                if key in keys and raw.value is not None:
                    yield key, msgspec.json.decode(raw.value, type=_Record)

    def _is_quiet(self, kept: KeptView, round_: Round) -> bool:
        start, end = round_.start.position, round_.end.position
        if end.offset - start.offset > QUIET_RECORDS_MAX:
            return False
        tables = set(self._tables(kept))
        return not any(_touches(entry, tables) for entry in ChangeLog(self.kafka, self.source).entries(start, end))


@dataclass
class _Settled:
    """What the rounds say of suspects. `same` are those that have been the same since the first."""

    same: dict[str, Differing]
    is_over: bool = False
    """The last round was quiet: nothing more is to be learnt."""

    def settle(self, suspects: Mapping[str, Differing], *, is_quiet: bool) -> None:
        self.same = {key: seen for key, seen in self.same.items() if suspects.get(key) == seen}
        self.is_over = is_quiet

    def leave_out(self, changed: Collection[str]) -> None:
        self.same = {key: seen for key, seen in self.same.items() if key not in changed}

    def certain(self, suspects: Mapping[str, Differing]) -> list[Differing]:
        """Of those left: all after a quiet round, else those that stayed the same through all rounds."""
        return [found for key, found in suspects.items() if self.is_over or key in self.same]


@contextmanager
def computing(view: str) -> Iterator[None]:
    """What Postgres says when its rows make the SQL fail: a division by zero, say."""
    try:
        yield
    except psycopg.Error as error:
        raise NotComputed(
            f"Postgres cannot compute {view}", detail=str(error).strip(), hint=f"headwater explain {view}"
        ) from error


def _value(part: msgspec.Raw) -> bytes | None:
    return None if bytes(part) == b"null" else bytes(part)


def _lsn(record: _Record) -> Lsn:
    """Of the last commit of the epoch that told it."""
    return Lsn.parse(msgspec.json.decode(record["lsn"], type=str))


def _touches(entry: object, tables: set[TableName]) -> bool:
    if isinstance(entry, End):
        return not tables.isdisjoint(entry.events_per_table)
    return isinstance(entry, ChangeEvent) and entry.table in tables


def _require_cheap(view: str, cost: float, cost_max: float) -> None:
    if cost > cost_max:
        raise TooCostly(
            f"some rows of {view} cost Postgres nearly as much as all",
            detail=f"its planner says {cost:,.0f}, the limit is {cost_max:,.0f}",
            hint=f"headwater verify {view}",
        )


def _replaced(view: str) -> ViewError:
    return ViewError(
        f"view {view} was built again meanwhile", detail="another group serves it", hint=f"headwater verify {view}"
    )
