"""Keys and rows as numbers of 64 bits: what is remembered of very many of them while two places are compared.

16 bytes a row, however long it is. The numbers are hashes, other ones in each process: that two of ten million keys
have the same one happens in one of some hundred thousand comparisons, and the next comparison has other numbers.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Collection, Iterable
from tempfile import TemporaryFile
from typing import Any, Final

import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]

NONE: Final = hash(b"")
"""The number of a row that is not there."""
SETTLED_MIN: Final = 500_000
_MARK: Final = "\0"
"""Begins a number: no text of Postgres' has it."""
_ODD: Final = np.int64(-7046029254386353131)
_LENGTH_BYTES: Final = 4


def numbers_of(texts: Iterable[bytes]) -> Numbers:
    return np.fromiter(map(hash, texts), np.int64)


def by_value(row: bytes) -> int:
    """The same for rows that only print a number in another way, or their columns in another order."""
    if not row:
        return NONE
    values = json.loads(row, parse_float=_digits, parse_int=_digits)
    return hash(json.dumps(values, sort_keys=True, separators=(",", ":")).encode())


def among(numbers: Numbers, known: Numbers) -> Flags:
    """Which of them are known; `known` is in order."""
    if not len(known):
        return np.zeros(len(numbers), np.bool_)
    found: Flags = known[_places(numbers, known)] == numbers
    return found


def pairs(keys: Numbers, rows: Numbers) -> Numbers:
    """One number for a key with a row."""
    with np.errstate(over="ignore"):
        found: Numbers = keys * _ODD + rows
    return found


def as_numbers(listed: array[int]) -> Numbers:
    return np.frombuffer(listed, np.int64) if listed else np.empty(0, np.int64)


class Newest:
    """The number of the newest row of each key."""

    def __init__(self) -> None:
        self.keys, self.rows = np.empty(0, np.int64), np.empty(0, np.int64)
        self._more: list[tuple[Numbers, Numbers]] = []
        self._waiting = 0

    def add(self, keys: Numbers, rows: Numbers) -> None:
        """Newer ones than all before; the last of a key counts."""
        self._more.append((keys, rows))
        self._waiting += len(keys)
        if self._waiting > max(SETTLED_MIN, len(self.keys) // 4):
            self.settle()

    def settle(self) -> None:
        """Before anything is looked up."""
        more, self._more, self._waiting = self._more, [], 0
        keys = np.concatenate([self.keys, *(each for each, _ in more)])
        rows = np.concatenate([self.rows, *(each for _, each in more)])
        order = np.argsort(keys, kind="stable")
        keys, rows = keys[order], rows[order]
        is_last = np.ones(len(keys), np.bool_)
        is_last[:-1] = keys[1:] != keys[:-1]
        self.keys, self.rows = keys[is_last], rows[is_last]

    def places(self, keys: Numbers) -> tuple[Flags, Numbers]:
        """Which are known, and where."""
        return among(keys, self.keys), _places(keys, self.keys)

    def rows_of(self, keys: Numbers) -> Numbers:
        if not len(self.keys):
            return np.full(len(keys), NONE, np.int64)
        known, places = self.places(keys)
        return np.where(known, self.rows[places], NONE)


class KeyTexts:
    """Keys by their numbers, on disk: of very many only some are asked for."""

    def __init__(self) -> None:
        self._file = TemporaryFile()  # noqa: SIM115 it is closed by `close`

    def add(self, number: int, key: bytes) -> None:
        self._file.write(
            number.to_bytes(8, "little", signed=True) + len(key).to_bytes(_LENGTH_BYTES, "little") + key,
        )

    def find(self, numbers: Collection[int]) -> dict[int, bytes]:
        wanted, found = set(numbers), dict[int, bytes]()
        self._file.seek(0)
        while wanted and (head := self._file.read(8 + _LENGTH_BYTES)):
            key = self._file.read(int.from_bytes(head[8:], "little"))
            number = int.from_bytes(head[:8], "little", signed=True)
            if number in wanted:
                wanted.discard(number)
                found[number] = key
        return found

    def close(self) -> None:
        self._file.close()


def _places(numbers: Numbers, known: Numbers) -> Numbers:
    found: Numbers = np.minimum(np.searchsorted(known, numbers), max(len(known) - 1, 0))
    return found


def _digits(text: str) -> str:
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    significant = digits.rstrip("0")
    if not significant:
        return f"{_MARK}0"
    power = int(exponent or 0) - len(fraction) + len(digits) - len(significant)
    return f"{_MARK}{'-' if mantissa.startswith('-') else ''}{significant}e{power}"
