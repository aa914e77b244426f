"""Places between every two effects of an epoch, at which a test may kill the process (cdc/failpoints.py)."""

from __future__ import annotations

from typing import Final

from cdc.failpoints import VARIABLE, reached

__all__ = ["PLACES", "VARIABLE", "reached"]

PLACES: Final = (
    "read",
    "node",
    "answered",
    "published-begin",
    "published-some",
    "published-commit",
    "epoch-done",
)
"""After: the records were read, a node committed, the tasks answered, the transaction began, some of its records were
sent, it was committed, the epoch was noted as done."""
