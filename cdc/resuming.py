"""Where a connector that was cut off inside a transaction goes on: at the transaction's beginning. Pure.

Rows of one COPY or multi-row INSERT share an LSN, one for every page of the table, and BEGIN has that of the first row.
Debezium 3.7.0.Beta1 stores how many rows it has written at its last LSN, and mistakes it at the next start: after one
row it leaves out the others of that LSN, and BEGIN counts as a row, so that one comes twice. The two halves of an
update that changed a key share an LSN, too, and the tables of a TRUNCATE. And where transactions overlapped, Postgres
may send one again that was written before, in the middle of the one that was cut off.

So the offset is set back to the commit before the transaction. There Debezium has nothing to count, and Postgres sends
the transaction again as a whole: the slot is never confirmed beyond that commit. The transaction stays open in the
offset, so no second BEGIN is written, but none of its changes is counted: they come again under the numbers they had
(`ChangeEvent.order`). By those every reader leaves them out (repeats.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from cdc.events import Begin, ChangeEvent, End, Entry, Snapshot

Offset: TypeAlias = Mapping[str, Any]
"""As Debezium stores it."""

_OPEN: Final = "transaction_id"
"""The transaction that it is in, or that has just ended: then the kind of the last message is COMMIT."""
_COUNT: Final = "transaction_data_collection_order_"
"""Before a table's name: how many changes of it the open transaction has had."""


def set_back(stored: Offset) -> dict[str, Any] | None:
    """The offset from which the connector is to go on; None if the stored one is right."""
    if _OPEN not in stored or stored.get("messageType") == "COMMIT":
        return None
    kept = {name: value for name, value in stored.items() if not name.startswith((_COUNT, "lsn_events_processed"))}
    commit = stored.get("lsn_commit")
    if commit is not None:
        return {**kept, "lsn": commit, "lsn_proc": commit, "messageType": "COMMIT"}
    # The first transaction after the snapshot: without these Debezium takes whatever the slot gives.
    return {name: value for name, value in kept.items() if name not in ("lsn_proc", "messageType")}


def fits(inside: Offset, backwards: Iterable[Entry]) -> bool:
    """Whether an offset inside a transaction was stored together with the end of this log, whose entries come from the
    last one on; no more are taken than needed. The two are written in one transaction of Kafka's, but not at one
    instant."""
    for entry in backwards:
        if isinstance(entry, Begin):
            return bool(inside[_OPEN] == entry.transaction.partition(":")[0] and not _changes(inside))
        if isinstance(entry, End):
            return False
        if isinstance(entry, ChangeEvent) and entry.order is not None:
            return bool(inside[_OPEN] == str(entry.xid) and _changes(inside) == entry.order)
        # Rows of an incremental snapshot stand inside transactions, but are not of them.
        if isinstance(entry, ChangeEvent) and entry.snapshot is not Snapshot.INCREMENTAL:
            return False
    return True


def _changes(inside: Offset) -> int:
    """How many the open transaction has had."""
    return sum(value for name, value in inside.items() if name.startswith(_COUNT))
