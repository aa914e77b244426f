"""Where a view's rows are in Redis: the layout that readers may rely on (docs/cache.md).

    hw:{SOURCE.VIEW}:gen                    the generation that readers use
    hw:{SOURCE.VIEW}:GEN:row:KEY            a row: its JSON, beginning with "_version"
    hw:{SOURCE.VIEW}:GEN:by:COLUMN:VALUE    a set of the KEYs whose row has that value, for the columns of `lookup`
    hw:{SOURCE.VIEW}:GEN:mark               how far the generation is
    hw:{SOURCE.VIEW}:changes                a channel: one message for each row that changed

KEY is the key's columns as compact JSON, such as {"id":7}; VALUE is the column's JSON. The braces keep a view's keys on
one node of a Redis cluster, where a script may touch them together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

VERSION: Final = "_version"
GONE: Final = "_gone"


@dataclass(frozen=True, slots=True)
class CacheKeys:
    source: str
    view: str

    @property
    def base(self) -> str:
        return f"hw:{{{self.source}.{self.view}}}"

    @property
    def pointer(self) -> str:
        return f"{self.base}:gen"

    @property
    def channel(self) -> str:
        return f"{self.base}:changes"

    def generation(self, number: int) -> str:
        return f"{self.base}:{number}"

    def mark(self, number: int) -> str:
        return f"{self.generation(number)}:mark"

    def row(self, number: int, key: bytes | str) -> str:
        return f"{self.generation(number)}:row:{key if isinstance(key, str) else key.decode()}"

    def lookup(self, number: int, column: str, value: object) -> str:
        return f"{self.generation(number)}:by:{column}:{msgspec.json.encode(value).decode()}"


def key_text(columns: tuple[str, ...], values: Mapping[str, object]) -> str:
    """A key as the view's topic writes it: compact JSON in the order of the key's columns."""
    return msgspec.json.encode({name: values[name] for name in columns}).decode()
