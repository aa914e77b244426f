"""Waiting for a condition, with a deadline: tests never sleep for a guess."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
DEADLINE_S = 60.0
STEP_S = 0.05


def eventually(check: Callable[[], T], timeout_s: float = DEADLINE_S) -> T:
    """Returns what the check returns, once it neither raises AssertionError nor returns False."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            answer = check()
            if answer is not False:
                return answer
            failure: AssertionError = AssertionError(f"{check} stayed false")
        except AssertionError as error:
            failure = error
        if time.monotonic() > deadline:
            raise failure
        time.sleep(STEP_S)
