"""Sweeps in a process of their own, and nice: what they take is not taken from who is told something.

    python -m headwater.service.sweeping ─▶ swept.json (sweep_file.py); a fact, where nothing could be swept

The settings are found as by every verb of ours.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from typing import Final

from cdc.errors import HeadwaterError

NICENESS: Final = 10
SWEEP_S_MAX: Final = 540
"""One that takes longer is given up."""


async def swept() -> str:
    """Once; why it did not come about, or nothing. A sweep that nobody waits for any more is ended."""
    command = (sys.executable, "-m", "headwater.service.sweeping")
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL)
    try:
        out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return out.decode() or (f"it ended with code {process.returncode}" if process.returncode else "")


def main() -> None:
    from headwater.alert_sweeps import sweep
    from headwater.deployment import Deployment
    from headwater.settings import load

    os.nice(NICENESS)
    signal.alarm(SWEEP_S_MAX)  # also when nobody is left to wait for it
    try:
        sweep(Deployment.resolve(load()))
    except HeadwaterError as error:
        print(error.fact)


if __name__ == "__main__":
    main()
