"""What a generation of the warehouse takes over from the one before it: versions that the view's topic has let go.
Decides, and writes nothing.

The newest first, so that what is whole grows backwards from where it was, and who is cut off goes on from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from views.sinks.warehouse_types import VERSION, Layout

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

VERSIONS_MAX: Final = 100_000
"""So many are in memory at once, and one commit."""


class Bequest(NamedTuple):
    rows: pa.Table
    """Of the other history, without those that are here already: what the topic itself told is not replaced."""
    start: int
    """No version from here on is left there."""
    is_last: bool


def bequest(layout: Layout, mine: Dataset, theirs: Dataset, until: int) -> Bequest | None:
    """The next piece of the versions before `until`; None if there are none."""
    start = _start(theirs, until)
    if start is None:
        return None
    among = (pc.field(VERSION) >= start) & (pc.field(VERSION) < until)
    known = mine.to_table(columns=[VERSION], filter=among)[VERSION].combine_chunks()
    rows = theirs.to_table(columns=layout.history.names, filter=among).cast(layout.history)
    return Bequest(rows.filter(pc.invert(pc.is_in(rows[VERSION], known))), start, _start(theirs, start) is None)


def _start(history: Dataset, until: int) -> int | None:
    """Where the versions before that begin, or a piece of them if they are many."""
    with duckdb.connect() as db:
        db.register("history", history)
        newest = f"SELECT {VERSION} AS v FROM history WHERE {VERSION} < {until} ORDER BY 1 DESC LIMIT {VERSIONS_MAX}"
        [[found]] = db.execute(f"SELECT min(v) FROM ({newest})").fetchall()
    return None if found is None else int(found)
