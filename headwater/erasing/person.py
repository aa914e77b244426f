"""Whose data is to be erased: the keys of their rows in one table, and the values that nobody else's row has. Pure.

A record is theirs when it is under one of the keys, or holds one of the values. A long value, or an address of mail, is
recognised inside a longer text, too; a short one only as a whole text: `anna` must not take `Johanna` along.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Final

from cdc.catalog import Table
from cdc.events import Row, TableName
from headwater.erasing.keys import Key, exact_json, logged_key, printed_key
from views.lineage import Part

VALUE_CHARACTERS_MIN: Final = 4
"""Shorter ones are in everybody's rows."""
WITHIN_CHARACTERS_MIN: Final = 10


@dataclass(frozen=True)
class Person:
    shape: Table
    """Where their rows are."""
    keys: tuple[tuple[Any, ...], ...]
    """Values of the key's columns, as Postgres prints them in JSON; numbers with a point as text, digit by digit."""
    values: frozenset[str] = frozenset()
    rows_in_source: int = 0
    shared: tuple[str, ...] = ()
    """Columns with values that other rows have as well: they are not looked for."""

    @property
    def table(self) -> TableName:
        return self.shape.name

    @property
    def key_columns(self) -> tuple[str, ...]:
        return self.shape.key

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

    def command(self, *, now: bool = False) -> str:
        """The verb that erases the same by key: once the rows are gone, no condition finds them."""
        words = ["headwater", "erase", "--table", str(self.table)]
        words += [word for key in self.key_objects for word in ("--key", key_argument(key))]
        return shlex.join([*words, *(["--now"] if now else []), "--yes"])

    def holds(self, row: bytes | None) -> bool:
        """Whether JSON has one of the values."""
        return row is not None and any(needle in row for needle in self._needles)

    def is_key(self, key: bytes | None) -> bool:
        """Whether the key of a record of their table is one of theirs: the same columns with the same values. Other
        tables have the same numbers."""
        try:
            found = json.loads(key or b"")
        except ValueError:
            return False
        return isinstance(found, dict) and found.keys() == set(self.key_columns) and self.is_logged(found)

    def is_logged(self, row: Row) -> bool:
        """Whether a row of their table, or its key, is theirs, in the form in which the log has it."""
        # As text, too: from before a column had its type, 5 is "5" today.
        texts = tuple(_text(row.get(name)) for name in self.key_columns)
        return logged_key(self.shape, row) in self._typed or texts in self._texts

    @cached_property
    def _typed(self) -> frozenset[Key]:
        return frozenset(key for each in self.key_objects if (key := printed_key(self.shape, each)) is not None)

    @cached_property
    def _texts(self) -> frozenset[tuple[str, ...]]:
        return frozenset(tuple(map(_text, key)) for key in self.keys)

    def is_row(self, uses: Sequence[Part], key: bytes) -> bool:
        """Whether a view's row under that key is theirs: it is made from one of their rows, whose key is in it, or it
        holds one of the values itself."""
        return self.holds(key) or any(self._is_linked(use, exact_json(key)) for use in uses if use.table == self.table)

    def _is_linked(self, use: Part, key: Mapping[str, Any]) -> bool:
        """Columns that are linked to the same one are equal to it, and to each other."""
        linked = [[name for name in use.links.get(column, ()) if name in key] for column in self.key_columns]
        return all(linked) and all(
            self._is_printed(dict(zip(self.key_columns, (key[name] for name in names), strict=True)))
            for names in product(*linked)
        )

    def _is_printed(self, key: Mapping[str, Any]) -> bool:
        """Whether a key of their table is theirs, as views have it: rows are JSON as Postgres prints it."""
        return printed_key(self.shape, key) in self._typed

    def digests(self, salt: str) -> list[str]:
        """The keys as the audit log keeps them: who has the receipt can prove them, nobody else can guess them."""
        return [digest(f"{self.table}:{json.dumps(key)}", salt) for key in self.keys]


def parsed_key(text: str) -> dict[str, Any]:
    """`id=5,line=2`: values as JSON has them, or texts. Or all as a JSON object."""
    if text.lstrip().startswith("{"):
        with suppress(ValueError):
            found = exact_json(text)
            if isinstance(found, dict):
                return found
    pairs = [part.partition("=") for part in text.split(",")]
    return {name.strip(): _value(value) for name, _, value in pairs}


def key_argument(key: dict[str, Any]) -> str:
    """What `parsed_key` makes this key of."""
    short = ",".join(f"{name}={value}" for name, value in key.items())
    return short if _is_same(parsed_key(short), key) else json.dumps(key, ensure_ascii=False, separators=(",", ":"))


def _is_same(one: object, other: object) -> bool:
    """Not as Python compares: to it, true is 1."""
    return json.dumps(one) == json.dumps(other)


def _value(text: str) -> Any:
    try:
        return exact_json(text)
    except ValueError:
        return text


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def digest(text: str, salt: str) -> str:
    """Salted: a number alone is soon guessed."""
    return f"sha256:{hashlib.sha256(f'{salt}:{text}'.encode()).hexdigest()}"


def worth_looking_for(values: Iterable[object]) -> set[str]:
    return {value for value in values if isinstance(value, str) and len(value) >= VALUE_CHARACTERS_MIN}
