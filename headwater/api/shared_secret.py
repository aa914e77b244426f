"""The secret that cursors are signed with: one for all processes that answer, so that a page read from one of them can
be turned at another. Kept in the data folder, which they share, readable by its owner only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

SECRET_FILE: Final = "cursors.key"  # its name
FILES: Final = (SECRET_FILE,)
SECRET_BYTES: Final = 32


def shared_secret(folder: Path) -> bytes:
    """Made by the first who asks. Where there is no data folder there are no views to read, either: one of its own."""
    if not folder.is_dir():
        return secrets.token_bytes(SECRET_BYTES)
    file = folder / SECRET_FILE
    if not file.exists():
        _make(file)
    return file.read_bytes()


def _make(file: Path) -> None:
    """Whole or not at all, and never a second time: a link is refused where there is a file."""
    working = file.with_name(f"{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(working, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(secrets.token_bytes(SECRET_BYTES))
        os.link(working, file)
    except FileExistsError:
        return
    finally:
        working.unlink(missing_ok=True)
