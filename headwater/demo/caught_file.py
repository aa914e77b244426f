"""What the demo's catchers caught, as lines in a file: for the API, which is another process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NAME: Final = "caught.txt"


@dataclass(frozen=True, slots=True)
class CaughtFile:
    """One writer, any number of readers."""

    folder: Path

    def write(self, lines: Iterable[str]) -> None:
        working = self.folder / f"{NAME}.working"
        working.write_text("\n".join(lines), encoding="utf-8")
        working.replace(self.folder / NAME)

    def read(self) -> list[str]:
        """The newest last; none where nothing is caught."""
        try:
            return (self.folder / NAME).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []

    def remove(self) -> None:
        (self.folder / NAME).unlink(missing_ok=True)
