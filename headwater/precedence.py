"""Giving way: the process that keeps the views, and servers behind it, leave the processor to who waits for an answer.

All of it lowers one's own precedence, or a child's, which needs no rights, so it works for everybody; children inherit
it.

- Niceness. On Linux a session (a child of ours is one) is first weighed against the other sessions as a whole, and
  niceness counts only inside it: so the session's own weight is lowered, too, where the kernel has one
  (`/proc/self/autogroup`) and this process leads it.
  One session among eight that are busy has an eighth, which is less than the API needs at 500 lookups a second: so all
  that nobody waits for gives way, not Spark alone.
- Processors. Weights say who gets how much, not how soon: beside Spark the API's thread was seen to wait 80 ms for its
  turn. So some processors are left to all others. docs/benchmarks.md has what each of the two does.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

TRIES: Final = 5
TRY_S: Final = 0.12
"""The kernel takes one such wish in a tenth of a second from who is not root."""


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
        _lower_session(os.getpid(), niceness)


def make_give_way(pid: int, niceness: int) -> None:
    """The same for a child that leads a session of its own, as soon as it is started."""
    if niceness > 0:
        with suppress(OSError):
            os.setpriority(os.PRIO_PGRP, pid, niceness)
        _lower_session(pid, niceness)


def _lower_session(leader: int, niceness: int) -> None:
    for _ in range(TRIES):
        try:
            Path(f"/proc/{leader}/autogroup").write_text(str(niceness))
        except BlockingIOError:
            time.sleep(TRY_S)
        except OSError:  # there is no such thing here
            return
        else:
            return
