"""Giving way: the process that keeps the views leaves the processor to who waits for an answer.

All of it lowers one's own precedence, which needs no rights, so it works for everybody; children inherit it.

- Niceness. On Linux a session (a child of ours is one) is first weighed against the other sessions as a whole, and
  niceness counts only inside it: so the session's own weight is lowered, too, where the kernel has one
  (`/proc/self/autogroup`) and this process leads it.
- Processors. Weights say who gets how much, not how soon: beside Spark the API's thread was seen to wait 80 ms for its
  turn, and other weights that were tried did not help (docs/benchmarks.md). So some processors are left to all others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

_SESSION: Final = Path("/proc/self/autogroup")


def give_way(niceness: int, processors_left: int) -> None:
    """To be called before threads and children are made. What the system has no means for is left as it is."""
    if niceness > 0:
        _be_nice(niceness)
    if sys.platform == "linux":
        with suppress(OSError):
            os.sched_setaffinity(0, kept_processors(os.sched_getaffinity(0), processors_left))


def kept_processors(given: Collection[int], left: int) -> set[int]:
    """All but the first ones; one at least."""
    ordered = sorted(given)
    return set(ordered[min(left, len(ordered) - 1) :])


def _be_nice(niceness: int) -> None:
    with suppress(OSError):
        os.nice(niceness)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):
            _SESSION.write_text(str(niceness))
