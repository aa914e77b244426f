"""Reads tests/cdc/golden: what the real Debezium wrote of the zoo, and what Postgres said of the same values.

Made by tests/tools/record_golden.py; nobody edits them by hand.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from cdc.catalog import Catalog, Table
from cdc.envelope import parse
from cdc.events import ChangeEvent, Entry, Record
from cdc.position import Position

FOLDER = Path(__file__).parent / "golden"
ERA = 1_760_000_000


@cache
def records() -> tuple[Record, ...]:
    rows = [json.loads(line) for line in (FOLDER / "records.jsonl").open()]
    return tuple(
        Record(
            position=Position(ERA, row["offset"]),
            written_at_ms=row["written_at_ms"],
            key=None if row["key"] is None else row["key"].encode(),
            value=row["value"].encode(),
        )
        for row in rows
    )


@cache
def entries() -> tuple[Entry, ...]:
    return tuple(parse(record) for record in records())


@cache
def events() -> tuple[ChangeEvent, ...]:
    return tuple(entry for entry in entries() if isinstance(entry, ChangeEvent))


@cache
def catalog() -> Catalog:
    """Before the story changes any table."""
    return Catalog.of(Table.parse(row) for row in json.loads((FOLDER / "catalog.json").read_text()))


@cache
def expected() -> dict[str, dict[int, str | None]]:
    """Postgres' text of each value, by table and id."""
    texts: dict[str, dict[int, str | None]] = {}
    for line in (FOLDER / "expected.jsonl").open():
        row = json.loads(line)
        texts.setdefault(row["table"], {})[row["id"]] = row["text"]
    return texts
