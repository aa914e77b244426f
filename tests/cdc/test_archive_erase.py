"""Rows leave a Delta table for good: with their files, from one that else only grows, beside somebody who writes."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cdc.archive_delta import DeltaFolder

SCHEMA = pa.schema([("offset", pa.int64()), ("value", pa.string()), ("day", pa.date32())])


def test_rows_and_their_files_leave_and_the_table_stays_ours(tmp_path: Path) -> None:
    folder = DeltaFolder(tmp_path / "table")
    folder.create(SCHEMA, {"delta.appendOnly": "true"}, ["day"])
    for number, value in enumerate(("bob", "ada", "eve")):
        row = {"offset": number, "value": value, "day": date(2026, 1, 1)}
        look(folder).append(pa.Table.from_pylist([row], SCHEMA), {"step": number})
    under_way = next(folder.path.glob("day=*")) / "part-1-of-another-writer.parquet"
    pq.write_table(pa.table({"offset": [7]}), under_way)

    folder.erase('"offset" = 1')
    assert sorted(look(folder).table.to_pyarrow_table()["value"].to_pylist()) == ["bob", "eve"]
    texts = [str(pq.read_table(file).to_pylist()) for file in folder.path.glob("day=*/*.parquet")]
    assert not any("ada" in text for text in texts), "the file that held it is gone"
    assert under_way.exists(), "what nobody has committed yet is another's"
    assert look(folder).table.metadata().configuration["delta.appendOnly"] == "true"
    assert look(folder).is_ours
    last = look(folder).last
    assert last is not None
    assert bytes(last.note) == b'{"step":2}', "what it says of itself is as before"
    look(folder).append(pa.Table.from_pylist([], SCHEMA), {"step": 3})


def look(folder: DeltaFolder):  # type: ignore[no-untyped-def]
    found = folder.look()
    assert found is not None
    return found
