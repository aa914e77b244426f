"""One writer at a time on a folder of state.

The writer holds a lock on the folder for as long as its process lives: a second one is refused at once. It also has a
number, greater than that of any writer before it, which its workers write into every arrangement they touch: one that
lost the folder without noticing (a paused machine, a network file system without locks) is refused by the arrangements.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

from cdc.errors import StateFenced

_FILE = "writer"


class Owner:
    def __init__(self, descriptor: int, number: int) -> None:
        self._descriptor = descriptor
        self.number = number

    @classmethod
    def acquire(cls, folder: Path) -> Owner:
        """Raises StateFenced while another process holds the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / _FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 64, 0).decode().partition(" ")[2]
            os.close(descriptor)
            raise StateFenced(
                f"another writer owns the state in {folder}",
                detail=f"process {holder}" if holder else "it holds the lock",
                hint="headwater status",
            ) from None
        number = int(os.pread(descriptor, 64, 0).decode().partition(" ")[0] or 0) + 1
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{number} {os.getpid()}".encode(), 0)
        os.fsync(descriptor)
        return cls(descriptor, number)

    def release(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Owner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()
