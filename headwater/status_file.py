"""The status that the watch last saw, in a file: how it reaches the processes that serve it.

Written whole and replaced in one step, so that a reader has the last one or the one before. It holds nothing that
`/v1/status` does not tell.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from headwater.status import Status

STATUS_FILE: Final = "status.json"
FILES: Final = (STATUS_FILE, f"{STATUS_FILE}.tmp")


class StatusFile:
    """One writer; each reader has its own. Reading what has not changed costs one look at the folder."""

    def __init__(self, folder: Path) -> None:
        self._file, self._working = (folder / name for name in FILES)
        self._known: tuple[tuple[int, int], Status | None] | None = None

    def write(self, status: Status) -> None:
        self._working.write_bytes(msgspec.json.encode(status))
        self._working.replace(self._file)

    def read(self) -> Status | None:
        """None before the first look, and where another version of Headwater has written it."""
        try:
            state = self._file.stat()
            changed = (state.st_ino, state.st_mtime_ns)
            if self._known is None or self._known[0] != changed:
                self._known = changed, _decoded(self._file.read_bytes())
        except FileNotFoundError:
            self._known = None
        return self._known[1] if self._known else None

    def remove(self) -> None:
        for file in (self._file, self._working):
            file.unlink(missing_ok=True)


def _decoded(text: bytes) -> Status | None:
    try:
        return msgspec.json.decode(text, type=Status)
    except msgspec.MsgspecError:
        return None
