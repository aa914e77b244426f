"""A terminal at which somebody types."""

from __future__ import annotations

import io


class Typed(io.StringIO):
    def isatty(self) -> bool:
        return True
