"""An entry of the change log as people and programs read it. Pure: entries in, text and plain objects out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from cdc.events import UNCHANGED, Begin, ChangeEvent, DeadLetter, End, Entry, Op, Row

VALUE_CHARACTERS_MAX: Final = 60
"""Longer values are cut in a line; `log show` has them whole."""

Part = str | tuple[str, str]
"""A text, or (text, style)."""
_STYLES: Final = {Op.INSERT: "green", Op.READ: "green", Op.UPDATE: "yellow", Op.DELETE: "red", Op.TRUNCATE: "bold red"}


def entry_object(entry: Entry) -> dict[str, object]:
    """The entry as a JSON object; the shape is a contract (docs: `headwater log tail --json`)."""
    match entry:
        case Begin():
            return {"position": str(entry.position), "kind": "begin", "transaction": entry.transaction, "at": entry.at}
        case End():
            return {
                "position": str(entry.position),
                "kind": "end",
                "transaction": entry.transaction,
                "commit_lsn": str(entry.commit_lsn),
                "at": entry.at,
                "events": entry.events,
                "events_per_table": {str(table): count for table, count in entry.events_per_table.items()},
            }
        case DeadLetter():
            return {
                "position": str(entry.position),
                "kind": "dead_letter",
                "error": entry.error,
                "key": entry.key,
                "value": entry.value,
            }
        case ChangeEvent():
            return _change_object(entry)


def entry_line(entry: Entry) -> list[Part]:
    """One line: where, when, what, which row, and what changed in it."""
    where: Part = (f"{entry.position}  ", "dim")
    match entry:
        case Begin():
            return [where, f"{_time(entry.at)}  ", ("begin", "bold"), f"  {entry.transaction}"]
        case End():
            tables = ", ".join(f"{table} {count}" for table, count in entry.events_per_table.items())
            ended = f"  {entry.commit_lsn}  events {entry.events}{f': {tables}' if tables else ''}"
            return [where, f"{_time(entry.at)}  ", ("end", "bold"), ended]
        case DeadLetter():
            return [where, ("dead letter", "bold red"), f"  {entry.error}  {_cut(_text(entry.value))}"]
        case ChangeEvent():
            indent = "  " if entry.order is not None else ""
            op = (f"{indent}{entry.op.value}", _STYLES.get(entry.op, ""))
            return [where, f"{_time(entry.event_at)}  ", op, f"  {entry.table}{_key(entry)}", *_changes(entry)]


def _change_object(event: ChangeEvent) -> dict[str, object]:
    after, unchanged = _split(event.after)
    return {
        "position": str(event.position),
        "kind": "change",
        "op": event.op.value,
        "table": str(event.table),
        "key": event.key,
        "before": event.before,
        "after": after,
        "unchanged": unchanged,
        "lsn": str(event.lsn),
        "xid": event.xid,
        "order": event.order,
        "snapshot": event.snapshot.value if event.snapshot else None,
        "event_at": event.event_at,
        "captured_at": event.captured_at,
        "message": event.message,
    }


def _split(row: Row | None) -> tuple[Row | None, list[str]]:
    """The values that are in the log, and the names of the large ones that are not because they did not change."""
    if row is None:
        return None, []
    return {name: v for name, v in row.items() if v is not UNCHANGED}, [n for n, v in row.items() if v is UNCHANGED]


def _key(event: ChangeEvent) -> str:
    return "".join(f" {name}={_cut(_text(value))}" for name, value in (event.key or {}).items())


def _changes(event: ChangeEvent) -> Iterator[Part]:
    if event.op is Op.MESSAGE:
        yield f"  {_cut(_text(event.message))}"
        return
    if event.op is Op.DELETE:
        return
    before, (after, unchanged) = event.before, _split(event.after)
    for name, value in (after or {}).items():
        if event.key and name in event.key:
            continue
        if before is None or name not in before:
            yield f"  {name}={_cut(_text(value))}"
        elif before[name] != value:
            yield f"  {name}: {_cut(_text(before[name]))} → {_cut(_text(value))}"
    if unchanged:
        yield (f"  (unchanged: {', '.join(unchanged)})", "dim")


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return json.dumps(value, ensure_ascii=False, default=str)


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_CHARACTERS_MAX else text[: VALUE_CHARACTERS_MAX - 1] + "…"
