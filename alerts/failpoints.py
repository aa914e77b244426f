"""Places between every two effects of telling people, at which a test may kill the process (cdc/failpoints.py)."""

from __future__ import annotations

from typing import Final

MATCHING: Final = ("matched", "recorded", "marked", "outbox-committed")
"""After: it is known whom a change concerns, the outbox has the rows, the mark was moved, both were committed."""
TELLING: Final = ("posted", "told", "notified")
"""After: a message and its delivery were written, its rows say so, all of a round was committed."""
DELIVERING: Final = ("claimed", "attempted", "settled")
"""After: a lease was taken, an attempt was made, its verdict was written."""
PLACES: Final = MATCHING + TELLING + DELIVERING
