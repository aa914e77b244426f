"""Snapshots of an arrangement: compacted copies, complete or not there at all, and the way back."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

from cdc.errors import StateError
from views.arrangement.arrangement import Arrangement
from views.arrangement.environment import DATA_FILE, REPAIR


def snapshot(arrangement: Arrangement, folder: Path) -> int | None:
    """Copies the arrangement to the folder, replacing an older copy, while it goes on. Returns the copy's epoch."""
    partial = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    partial.mkdir(parents=True)
    try:
        epoch = arrangement.copy_to(partial)
        folder.mkdir(parents=True, exist_ok=True)
        _put(partial / DATA_FILE, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return epoch


def restore(copied: Path, folder: Path) -> None:
    """Puts a snapshot in the place of whatever the folder holds. The arrangement must not be open anywhere."""
    if not (copied / DATA_FILE).exists():
        raise StateError(f"no snapshot in {copied}", detail=f"{DATA_FILE} is not there", hint=REPAIR)
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{uuid.uuid4().hex}"
    shutil.copyfile(copied / DATA_FILE, partial)
    (folder / "lock.mdb").unlink(missing_ok=True)
    _put(partial, folder)


def _put(file: Path, folder: Path) -> None:
    """Renames it into the folder, durably."""
    with file.open("rb") as handle:
        os.fsync(handle.fileno())
    file.replace(folder / DATA_FILE)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
