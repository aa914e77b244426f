"""Where the warehouse keeps a view's generations, and which of them readers use (warehouse.py draws the folders)."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, unquote

HISTORY, CURRENT, LIVE = "history", "current", "live"


def view_folder(folder: str | Path, source: str, view: str) -> Path:
    return Path(folder).absolute() / folder_name(source) / folder_name(view)


def folder_name(name: str) -> str:
    """Encoded as in a URL, and dots, too; but with ~: delta-rs takes a folder %20 for one whose name is a blank."""
    return quote(name, safe="").replace("~", "%7E").replace(".", "%2E").replace("%", "~")


def named_in(folder: str) -> str:
    return unquote(folder.replace("~", "%"))


def live_generation(folder: Path) -> int | None:
    try:
        return int((folder / LIVE).read_text())
    except FileNotFoundError:
        return None


def point_to(folder: Path, generation: int | None) -> None:
    """Readers of the view use it from now on; none of them, without one."""
    pointer = folder / LIVE
    if generation is None:
        pointer.unlink(missing_ok=True)
        return
    pointer.parent.mkdir(parents=True, exist_ok=True)
    made = pointer.with_name(f".{LIVE}.{os.getpid()}")
    made.write_text(f"{generation}\n")
    made.replace(pointer)
