"""Sweeps in a process of their own, and nice: what they take is not taken from who is told something.

    python -m headwater.service.sweeping ─▶ swept.json (sweep_file.py); a line for all that could not be swept

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
LAST_WORDS_CHARACTERS: Final = 300


async def swept() -> list[str]:
    """Once; what did not come about, and why. A sweep that nobody waits for any more is ended."""
    command = (sys.executable, "-m", "headwater.service.sweeping")
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    ended = [_last_words(process.returncode, err.decode(errors="replace"))] if process.returncode else []
    return [*out.decode().splitlines(), *ended]


def _last_words(code: int, err: str) -> str:
    last = next((line.strip() for line in reversed(err.splitlines()) if line.strip()), "")
    return f"it ended with code {code}" + (f": {last[:LAST_WORDS_CHARACTERS]}" if last else "")


def main() -> None:
    from headwater.alert_sweeps import sweep
    from headwater.deployment import Deployment
    from headwater.settings import load

    os.nice(NICENESS)
    signal.alarm(SWEEP_S_MAX)  # also when nobody is left to wait for it
    try:
        for view, error in sweep(Deployment.resolve(load())).failed.items():
            print(f"{view}: {error.fact}")
    except HeadwaterError as error:
        print(error.fact)


if __name__ == "__main__":
    main()
