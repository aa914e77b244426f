"""Proof that nothing is missing from the log, from what the source itself counted, whatever the connector says.

Two rows at the source grow by exactly one a commit, and come down the log like any other: the canary (ticked by who
watches, faster while capture stands still) and the heartbeat (beaten by Debezium while it runs). A reader who sees n
and then neither n + 1 nor the same change again has proof that commits between the two never arrived, or that the
source was set back. What was lost between two numbers is not seen by them: at most the time from one tick to the next.

`after` is pure; `CanaryCheck` reads each record of an era once, in bounded steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from cdc import eras
from cdc.changelog import ChangeLog
from cdc.envelope import parse
from cdc.errors import PositionExpired
from cdc.events import ChangeEvent, Op, Record, Snapshot, TableName
from cdc.position import Position

STEP_RECORDS_MAX: Final = 50_000
"""In one look, for those who look again and again and must not be held up."""
CANARY: Final = TableName("headwater", "canary")
HEARTBEAT: Final = TableName("headwater", "heartbeat")
_COUNTED: Final = {CANARY: "number", HEARTBEAT: "beats"}
_OURS: Final = b'"schema":"headwater"'


class Count(msgspec.Struct, frozen=True):
    """The last number of one of the two, and of which change it was."""

    number: int
    xid: int | None = None
    order: int | None = None


class Proven(msgspec.Struct, frozen=True):
    """Up to where the log of an era was looked at, and what that proves."""

    era: int
    offset: int
    """Everything before it has been looked at."""
    canary: Count | None = None
    beats: Count | None = None
    gap: str = ""
    """The first break, in words; empty while there is none."""
    gap_offset: int = -1
    skipped: str = ""
    """A part of the log that was gone before anybody looked at it: nothing is proven of that."""


def after(known: Proven, records: Iterable[Record]) -> Proven:
    """What is proven with these records, which must go on where the last ones ended."""
    offset = known.offset
    for record in records:
        offset = record.position.offset + 1
        if record.value is not None and _OURS in record.value:
            entry = parse(record)
            if isinstance(entry, ChangeEvent) and entry.table in _COUNTED:
                known = _counted(known, entry)
    return msgspec.structs.replace(known, offset=offset)


def _counted(known: Proven, event: ChangeEvent) -> Proven:
    found = (event.after or {}).get(_COUNTED[event.table])
    if not isinstance(found, int) or event.op not in (Op.READ, Op.UPDATE) or event.snapshot is Snapshot.INCREMENTAL:
        return known
    is_canary = event.table == CANARY
    last = known.canary if is_canary else known.beats
    if last is not None and event.op is Op.UPDATE:
        if event.xid == last.xid and (event.order or 0) <= (last.order or 0):
            return known  # the transaction was cut off, and comes again (resuming.py)
        if found != last.number + 1 and not known.gap:
            name = "the canary" if is_canary else "the heartbeat"
            known = msgspec.structs.replace(
                known,
                gap=f"{name} says {found} after {last.number}, at {event.position}",
                gap_offset=event.position.offset,
            )
    count = Count(found, event.xid, event.order)
    return msgspec.structs.replace(known, **{"canary" if is_canary else "beats": count})


@dataclass
class CanaryCheck:
    """Reads on from the last look. Raises LogError when the log cannot be read: try again later."""

    log: ChangeLog
    known: Proven | None = None
    archived: ChangeLog | None = None
    """The same with its archive, asked only for what Kafka no longer holds."""

    def look(self, records_max: int = STEP_RECORDS_MAX) -> Proven:
        era = eras.current(self.log.kafka, self.log.source)
        known = self.known
        if known is None or known.era != era.era:
            known = Proven(era.era, era.first_offset)
        for log in filter(None, (self.log, self.archived)):
            try:
                self.known = after(known, log.read(Position(known.era, known.offset), limit=records_max))
            except PositionExpired:
                continue
            return self.known
        known = self._behind_what_is_gone(known, era.first_offset)
        self.known = after(known, self.log.read(Position(known.era, known.offset), limit=records_max))
        return self.known

    def _behind_what_is_gone(self, known: Proven, first_offset: int) -> Proven:
        low = max(self.log.bounds()[0].offset, first_offset)
        told = f"offsets {known.offset} to {low} were gone before they were looked at"
        return Proven(known.era, low, gap=known.gap, gap_offset=known.gap_offset, skipped=told)
