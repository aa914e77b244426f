"""Whose data is to be erased: the keys of their rows in one table, and the values that nobody else's row has. Pure.

A record is theirs when it is under one of the keys, or holds one of the values. A long value, or an address of mail, is
recognised inside a longer text, too; a short one only as a whole text: `anna` must not take `Johanna` along.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from cdc.events import TableName

VALUE_CHARACTERS_MIN: Final = 4
"""Shorter ones are in everybody's rows."""
WITHIN_CHARACTERS_MIN: Final = 10


@dataclass(frozen=True)
class Person:
    table: TableName
    key_columns: tuple[str, ...]
    keys: tuple[tuple[Any, ...], ...]
    """Values of the key's columns, as JSON has them."""
    values: frozenset[str] = frozenset()
    rows_in_source: int = 0
    shared: tuple[str, ...] = ()
    """Columns with values that other rows have as well: they are not looked for."""

    @cached_property
    def _needles(self) -> tuple[bytes, ...]:
        found = []
        for value in sorted(self.values):
            text = json.dumps(value, ensure_ascii=False)
            is_within = len(value) >= WITHIN_CHARACTERS_MIN or "@" in value
            found.append((text[1:-1] if is_within else text).encode())
        return tuple(found)

    @cached_property
    def key_objects(self) -> tuple[dict[str, Any], ...]:
        return tuple(dict(zip(self.key_columns, key, strict=True)) for key in self.keys)

    def holds(self, row: bytes | None) -> bool:
        """Whether JSON has one of the values."""
        return row is not None and any(needle in row for needle in self._needles)

    def is_key(self, key: bytes | None) -> bool:
        """Whether a record's key, as JSON, is one of theirs: the same columns with the same values."""
        try:
            return key is not None and json.loads(key) in self.key_objects
        except ValueError:
            return False

    def digests(self, salt: str) -> list[str]:
        """The keys as the audit log keeps them: who has the receipt can prove them, nobody else can guess them."""
        return [digest(f"{self.table}:{json.dumps(key)}", salt) for key in self.keys]


def digest(text: str, salt: str) -> str:
    """Salted: a number alone is soon guessed."""
    return f"sha256:{hashlib.sha256(f'{salt}:{text}'.encode()).hexdigest()}"


def worth_looking_for(values: Iterable[object]) -> set[str]:
    return {value for value in values if isinstance(value, str) and len(value) >= VALUE_CHARACTERS_MIN}
