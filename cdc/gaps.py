"""Gaps: what proves that the log of an era no longer holds every change of the source. Pure values and one rule each.

A gap belongs to an era and never heals: what was lost does not come back. It ends with the era, when capture begins a
new one with a fresh snapshot. What was derived from an era with a gap is stale until it is built from a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

from cdc.canary import Proven
from cdc.eras import Era
from cdc.position import Lsn
from cdc.slots import SlotState

KEPT_MAX: Final = 50
"""Gaps that are remembered; the oldest go first."""


class GapCode(StrEnum):
    SLOT_MISSING = "slot missing"
    SLOT_LOST = "slot lost"
    """Invalidated: Postgres has removed log that it needed."""
    SLOT_AHEAD = "slot ahead"
    """Moved past what the connector has read."""
    TOPIC_RECREATED = "topic re-created"
    SOURCE_CHANGED = "source changed"
    """Another timeline or another cluster: a failover, or a restore."""
    SOURCE_WENT_BACK = "source went back"
    """Restored to a point before the end of the log."""
    CONNECTOR = "connector refused"
    """It says itself that what it needs is gone."""
    CANARY = "canary"
    """A number is missing from the log."""


class Gap(msgspec.Struct, frozen=True):
    era: int
    code: GapCode
    detail: str
    since_s: float
    """When it was noticed."""

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"


class Gaps(msgspec.Struct, frozen=True):
    """All that were noticed, oldest first, and how far the canary was followed."""

    gaps: tuple[Gap, ...] = ()
    proven: Proven | None = None

    def of(self, era: int) -> tuple[Gap, ...]:
        return tuple(gap for gap in self.gaps if gap.era == era)

    def plus(self, found: Iterable[Gap], proven: Proven | None) -> Gaps:
        """With these; one that is known already keeps its time."""
        gaps = list(self.gaps)
        known = {(gap.era, gap.code) for gap in gaps}
        gaps += [gap for gap in found if (gap.era, gap.code) not in known]
        return Gaps(tuple(gaps[-KEPT_MAX:]), proven or self.proven)


@dataclass(frozen=True, slots=True)
class Seen:
    """One look, in this order: era and topic, the log, the slot, the connector's offset. What is asked later is newer,
    so a comparison can be late but never wrong."""

    era: Era
    topic_id: str | None = None
    """None where Kafka was not asked."""
    is_begun: bool = False
    """The era's snapshot has rows in the log: its slot was there."""
    log_lsn: Lsn | None = None
    """The last commit in the log."""
    slot: SlotState | None = None
    offset_lsn: Lsn | None = None
    """Where the connector would go on; None while it runs, when it is none of our business."""
    refusal: str = ""
    """Why a connector that failed must not be restarted (mending.FATAL)."""
    proven: Proven | None = None


def find(seen: Seen, now_s: float) -> list[Gap]:
    return [Gap(seen.era.era, code, detail, now_s) for rule in _RULES for code, detail in rule(seen)]


def _topic(seen: Seen) -> Iterator[tuple[GapCode, str]]:
    if seen.topic_id is not None and seen.topic_id != seen.era.topic_id:
        found = f"it was {seen.era.topic_id}, there is {seen.topic_id or 'none'} now"
        yield GapCode.TOPIC_RECREATED, f"the log's topic was deleted and made anew: {found}"


def _slot(seen: Seen) -> Iterator[tuple[GapCode, str]]:
    slot = seen.slot
    if slot is None:
        return
    if not slot.exists:
        if seen.is_begun:
            yield GapCode.SLOT_MISSING, f"there is no replication slot {slot.name} any more"
    elif slot.lost:
        why = slot.invalidation_reason or "its write-ahead log was removed"
        yield GapCode.SLOT_LOST, f"slot {slot.name}: {why}; changes since {slot.confirmed_flush_lsn} are gone"
    elif slot.active:
        return  # what moves cannot be compared
    elif seen.offset_lsn and slot.confirmed_flush_lsn and slot.confirmed_flush_lsn > seen.offset_lsn:
        where = f"slot {slot.name} is at {slot.confirmed_flush_lsn}, the connector at {seen.offset_lsn}"
        yield GapCode.SLOT_AHEAD, f"{where}: what is between them will never reach the log"


def _history(seen: Seen) -> Iterator[tuple[GapCode, str]]:
    slot = seen.slot
    if slot is None or not slot.system_identifier:
        return
    before, now = (seen.era.system_identifier, seen.era.timeline), (slot.system_identifier, slot.timeline)
    if before != now:
        told = "cluster {} on timeline {}".format
        yield GapCode.SOURCE_CHANGED, f"the log speaks of {told(*before)}, this is {told(*now)}"
    elif seen.log_lsn and slot.current_lsn < seen.log_lsn:
        yield GapCode.SOURCE_WENT_BACK, f"the source is at {slot.current_lsn}, the log has commits up to {seen.log_lsn}"


def _connector(seen: Seen) -> Iterator[tuple[GapCode, str]]:
    if seen.refusal and seen.is_begun:
        yield GapCode.CONNECTOR, seen.refusal


def _canary(seen: Seen) -> Iterator[tuple[GapCode, str]]:
    if seen.proven is not None and seen.proven.era == seen.era.era and seen.proven.gap:
        yield GapCode.CANARY, seen.proven.gap


_RULES: Final[tuple[Callable[[Seen], Iterator[tuple[GapCode, str]]], ...]] = (
    _topic,
    _slot,
    _history,
    _connector,
    _canary,
)
