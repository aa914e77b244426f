"""The mark that everything is up: a file with the pid of the process that says so. `up --detach` waits for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

READY_FILE: Final = "ready"


@contextmanager
def marked_ready(folder: Path) -> Iterator[None]:
    marker = folder / READY_FILE
    marker.write_text(str(os.getpid()))
    try:
        yield
    finally:
        marker.unlink(missing_ok=True)


def is_ready(folder: Path, pid: int) -> bool:
    """Whether that process has everything up. What a killed one left behind names another pid."""
    try:
        return (folder / READY_FILE).read_text() == str(pid)
    except FileNotFoundError:
        return False
