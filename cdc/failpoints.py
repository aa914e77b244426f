"""Places at which a test may kill the process: between every two effects. Without the variable, nothing.

HEADWATER_FAILPOINT names a place, how often it is passed before it strikes, and a file that says that it has struck:
`node:3:/some/file`. A struck one does not strike again. Which places there are: views/maintain/failpoints.py,
alerts/failpoints.py.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

VARIABLE: Final = "HEADWATER_FAILPOINT"
_passed: dict[str, int] = {}


def reached(place: str) -> None:
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    name, times, file = wanted.split(":", 2)
    if name != place or Path(file).exists():
        return
    _passed[place] = _passed.get(place, 0) + 1
    if _passed[place] >= int(times):
        Path(file).write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
