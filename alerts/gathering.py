"""What the log says of saved searches and of quiet stretches, among all that it says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from cdc.envelope import parse, table_of
from cdc.epochs import mark_of
from cdc.events import UNCHANGED, ChangeEvent, Op, Record, Row, TableName
from cdc.relations import QUIET, SUBSCRIPTIONS

GATHERED: Final = (SUBSCRIPTIONS, QUIET)


@dataclass(frozen=True, slots=True)
class Logged:
    """A change of one of them."""

    table: TableName
    op: Op
    end: int
    """One past the end of its transaction: what lies after it, the search sees."""
    id: int
    before: Row | None
    after: Row | None


@dataclass
class Gathering:
    """Finds them among the log's records, which may be given piece by piece."""

    _held: list[ChangeEvent] = field(default_factory=list, init=False)

    def take(self, records: Iterable[Record]) -> Iterator[Logged]:
        """In the log's order, each when its transaction is complete."""
        for record in records:
            value = record.value
            if value is None:
                continue
            if table_of(value) in GATHERED and isinstance(event := parse(record), ChangeEvent):
                self._held.append(event)
            if self._held and mark_of(value).completes:
                yield from (logged for event in self._held for logged in _logged(event, record.position.offset + 1))
                self._held.clear()


def _logged(event: ChangeEvent, end: int) -> Iterator[Logged]:
    before, after = event.before, event.after
    if event.op is Op.TRUNCATE or not (row := after or before):
        return  # nobody empties the tables: rows are removed one by one
    if before and after:
        after = {name: before.get(name) if value is UNCHANGED else value for name, value in after.items()}
    number = row["id"]
    assert isinstance(number, int)
    yield Logged(event.table, event.op, end, number, before, after)
