"""Outbox rows of one owner ▶ what they are told now, and what waits until when. Pure.

    pending rows ─▶ silenced: dropped ─▶ by target ─▶ bundles: one item at one version ─▶ due? ─▶ one Draft a target

- An item that matches several searches of an owner is told once to a target, naming all: rows of one change go
  together, as soon as the first of them is due, and a digest does not repeat what an instant message told.
- Instant news is told at once; what follows within `burst_s` of a message to the same target is gathered into the next.
- Digests come at the full hour, or at the owner's hour of the day or week. Quiet hours postpone to their end. A search
  that has been told `cap_per_day` times waits for the next day, a digest for its hour on it: nothing is lost, it comes
  together.
- Whatever is told of a target at an instant is one message.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from alerts.local_times import after_quiet, local_day, next_day, next_hour
from alerts.saved_search import SavedSearch, Wish

SUPPRESSED: Final = "suppressed"
REMOVED: Final = "removed"


@dataclass(frozen=True, slots=True)
class Target:
    """Where an owner is told."""

    channel: str
    target: str


@dataclass(frozen=True, slots=True)
class Pending:
    """A row of the outbox that nobody was told of yet."""

    id: int
    sequence: int
    subscription_id: int
    view: str
    key: str
    version: int
    event: str
    recorded_at: datetime
    reason: str = ""
    before: str | None = None
    after: str | None = None

    @property
    def item(self) -> tuple[str, str]:
        return self.view, self.key


@dataclass(frozen=True)
class Knowledge:
    """What there is to know of an owner when their rows are looked at."""

    searches: Mapping[int, SavedSearch]
    suppressed: frozenset[Target] = frozenset()
    told_at: Mapping[Target, datetime] = field(default_factory=dict)
    """When each target was last told anything."""
    told_times: Mapping[int, tuple[datetime, ...]] = field(default_factory=dict)
    """When each search with a cap was told, at least as far back as its day reaches."""
    burst_s: float = 0.0


@dataclass(frozen=True)
class Draft:
    """One message: rows in the order of their sequence."""

    target: Target
    rows: tuple[Pending, ...]

    @property
    def subscription_ids(self) -> tuple[int, ...]:
        return tuple(sorted({row.subscription_id for row in self.rows}))


@dataclass(frozen=True)
class Decision:
    """What becomes of each row: told in a draft, looked at again at an instant, or dropped for a reason."""

    drafts: tuple[Draft, ...]
    postponed: Mapping[int, datetime]
    dropped: Mapping[int, str]


def first_due(wish: Wish, recorded_at: datetime) -> datetime:
    """When a row is told at the earliest, by its own search alone."""
    return after_quiet(_by_frequency(wish, recorded_at), wish.quiet_hours, wish.zone)


def _by_frequency(wish: Wish, at: datetime) -> datetime:
    if wish.frequency == "hourly":
        return next_hour(at, wish.zone)
    if wish.frequency == "daily":
        return next_day(at, wish.digest_hour, wish.zone)
    if wish.frequency == "weekly":
        return next_day(at, wish.digest_hour, wish.zone, wish.digest_weekday)
    return at


def decide(rows: Iterable[Pending], known: Knowledge, now: datetime) -> Decision:
    dropped: dict[int, str] = {}
    by_target: dict[Target, list[Pending]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.sequence):
        why = _silence(row, known, now)
        if why is None:
            by_target[target_of(known.searches[row.subscription_id])].append(row)
        else:
            dropped[row.id] = why
    drafts, postponed = [], dict[int, datetime]()
    for target, mine in by_target.items():
        told, waiting = _split(mine, target, known, now)
        postponed |= waiting
        if told:
            drafts.append(Draft(target, tuple(told)))
    return Decision(tuple(drafts), postponed, dropped)


def target_of(search: SavedSearch) -> Target:
    return Target(search.wish.channel, search.wish.target)


def _silence(row: Pending, known: Knowledge, now: datetime) -> str | None:
    search = known.searches.get(row.subscription_id)
    if search is None:
        return REMOVED
    return search.silence(now) or (SUPPRESSED if target_of(search) in known.suppressed else None)


def _split(
    rows: list[Pending], target: Target, known: Knowledge, now: datetime
) -> tuple[list[Pending], dict[int, datetime]]:
    """The rows of one target that are due, and when the others are to be looked at."""
    capped = {id_: _capped_until(id_, known) for id_ in {row.subscription_id for row in rows}}
    dues = {row.id: _due(row, target, known, capped[row.subscription_id], now) for row in rows}
    bundles: dict[tuple[str, str, int], list[Pending]] = defaultdict(list)
    for row in rows:
        bundles[row.view, row.key, row.version].append(row)
    told = [row for bundle in bundles.values() if min(dues[row.id] for row in bundle) <= now for row in bundle]
    ids = {row.id for row in told}
    return sorted(told, key=lambda row: row.sequence), {id_: at for id_, at in dues.items() if id_ not in ids}


def _capped_until(id_: int, known: Knowledge) -> datetime | None:
    """The end of the last day on which a search was told as often as it may be; None without one."""
    wish, told = known.searches[id_].wish, known.told_times.get(id_, ())
    if wish.cap_per_day is None:
        return None
    times = Counter(local_day(at, wish.zone)[1] for at in told)
    return max((end for end, count in times.items() if count >= wish.cap_per_day), default=None)


def _due(row: Pending, target: Target, known: Knowledge, capped_until: datetime | None, now: datetime) -> datetime:
    """When a row is told, as things are now; never before now."""
    wish = known.searches[row.subscription_id].wish
    due = first_due(wish, row.recorded_at)
    if wish.frequency == "instant" and (last := known.told_at.get(target)) is not None:
        due = max(due, last + timedelta(seconds=known.burst_s))
    if capped_until is not None and capped_until > due:
        due = max(due, _uncapped(wish, capped_until))
    # What has come is checked against the quiet hours of now: they may have begun since.
    return after_quiet(max(due, now), wish.quiet_hours, wish.zone)


def _uncapped(wish: Wish, midnight: datetime) -> datetime:
    """When a search is told again that has to wait for a day: a digest comes at its hour on that day, too."""
    if wish.frequency in ("instant", "hourly"):
        return midnight
    return _by_frequency(wish, midnight - timedelta(microseconds=1))
