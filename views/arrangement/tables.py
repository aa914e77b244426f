"""The tables of an arrangement, inside one transaction.

A Multiset holds rows by key with how often each is there. An entry is the key, then a suffix that tells its rows apart:
by default a hash of the row, or an ordered key where the order matters. Keys are prefix-free (keys.py), so the rows of
one stand together, in the order of their suffixes; that order, and so everything computed from it, depends on the rows
alone and not on how they came. Reading and changing a row costs the same however many there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from cdc.errors import StateError
from views.arrangement.environment import REPAIR

ROWS_PER_CHUNK: Final = 65_536
SUFFIX_BYTES: Final = 16
_COUNT_WIDE: Final = 0xFF


class Changed(NamedTuple):
    """A row of which there are more or fewer."""

    key: bytes
    suffix: bytes
    row: bytes
    old: int
    new: int


class Stored(NamedTuple):
    """Rows as they are, column by column; `places` says for each which of the keys asked for it is under."""

    places: list[int]
    suffixes: list[bytes]
    rows: list[bytes]
    counts: list[int]

    @classmethod
    def empty(cls) -> Stored:
        return cls([], [], [], [])

    def add(self, place: int, suffix: bytes, value: bytes) -> None:
        count, start = _count(value)
        self.places.append(place)
        self.suffixes.append(suffix)
        self.rows.append(value[start:])
        self.counts.append(count)


def row_hash(row: bytes) -> bytes:
    return blake2b(row, digest_size=SUFFIX_BYTES).digest()


class Multiset:
    def __init__(self, transaction: Any, table: Any) -> None:
        self._transaction = transaction
        self._table = table
        self._cursor = transaction.cursor(table)

    def changes(
        self,
        keys: Sequence[bytes],
        rows: Sequence[bytes],
        weights: Sequence[int],
        suffixes: Sequence[bytes] | None = None,
    ) -> list[Changed]:
        """What adding these rows (negative weights: taking away) would change. Nothing is written yet.

        Raises StateError if a row would be taken away that is not there.
        """
        totals: dict[bytes, tuple[bytes, bytes, bytes, int]] = {}
        for place, (key, row, weight) in enumerate(zip(keys, rows, weights, strict=True)):
            suffix = row_hash(row) if suffixes is None else suffixes[place]
            entry = key + suffix
            known = totals.get(entry)
            totals[entry] = (key, suffix, row, weight if known is None else known[3] + weight)
        entries = sorted(entry for entry, total in totals.items() if total[3])
        found = dict(self._cursor.getmulti(entries))
        changed = []
        for entry in entries:
            key, suffix, row, weight = totals[entry]
            value = found.get(entry)
            old = 0 if value is None else _count(value)[0]
            if old + weight < 0:
                raise _never_there(row, old, weight)
            changed.append(Changed(key, suffix, row, old, old + weight))
        return changed

    def write(self, changed: Iterable[Changed]) -> None:
        puts = []
        for change in changed:
            if change.new:
                puts.append((change.key + change.suffix, _counted(change.new, change.row)))
            elif self._cursor.set_key(change.key + change.suffix):
                self._cursor.delete()
        self._cursor.putmulti(puts)

    def scan(self, keys: Sequence[bytes], rows_max: int = ROWS_PER_CHUNK) -> Iterator[Stored]:
        """All rows of the keys, in chunks of no more than so many."""
        chunk = Stored.empty()
        for place in sorted(range(len(keys)), key=keys.__getitem__):
            width = len(keys[place])
            for entry, value in self._entries(keys[place]):
                chunk.add(place, entry[width:], value)
                if len(chunk.rows) >= rows_max:
                    yield chunk
                    chunk = Stored.empty()
        if chunk.rows:
            yield chunk

    def everything(self, rows_max: int = ROWS_PER_CHUNK) -> Iterator[Stored]:
        return self.scan([b""], rows_max)

    def read(self, keys: Sequence[bytes]) -> Stored:
        """The same at once."""
        whole = Stored.empty()
        for chunk in self.scan(keys):
            whole.places.extend(chunk.places)
            whole.suffixes.extend(chunk.suffixes)
            whole.rows.extend(chunk.rows)
            whole.counts.extend(chunk.counts)
        return whole

    def exceeds(self, key: bytes, rows: int) -> bool:
        """Whether there are more than so many different rows; looks at no more than that."""
        return any(number == rows for number, _ in enumerate(self._entries(key)))

    def first(self, key: bytes) -> bytes | None:
        for _, value in self._entries(key):
            return value[_count(value)[1] :]
        return None

    def last(self, key: bytes) -> bytes | None:
        cursor = self._transaction.cursor(self._table)
        after = _successor(key)
        found = cursor.prev() if after is not None and cursor.set_range(after) else cursor.last()
        if not found or not cursor.key().startswith(key):
            return None
        value: bytes = cursor.value()
        return value[_count(value)[1] :]

    def beginning(self, key: bytes, rows: int, cut_bytes: int) -> Stored:
        """The first so many rows of a key, counting each as often as it is there. Where the suffix before the row's
        hash has `cut_bytes`, it was cut off there and decides nothing among its equals: all of them are returned."""
        taken, last = 0, b""
        chunk = Stored.empty()
        for entry, value in self._entries(key):
            suffix = entry[len(key) :]
            order = suffix[:-SUFFIX_BYTES]
            if taken >= rows and (len(order) < cut_bytes or order != last):
                break
            chunk.add(0, suffix, value)
            taken, last = taken + chunk.counts[-1], order
        return chunk

    def _entries(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        cursor = self._transaction.cursor(self._table)
        if not (cursor.set_range(key) if key else cursor.first()):
            return
        for entry, value in cursor:
            if not entry.startswith(key):
                return
            yield entry, value


class Entries:
    """One value a key."""

    _PREFIX: Final = b"k"  # LMDB has no empty keys, and the key of all rows is empty

    def __init__(self, transaction: Any, table: Any) -> None:
        self._transaction, self._table = transaction, table
        self._cursor = transaction.cursor(table)

    def read(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        found = self._cursor.getmulti(sorted(self._PREFIX + key for key in set(keys)))
        return {entry[1:]: value for entry, value in found}

    def write(self, values: Iterable[tuple[bytes, bytes]]) -> None:
        self._cursor.putmulti(sorted((self._PREFIX + key, value) for key, value in values))

    def delete(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            if self._cursor.set_key(self._PREFIX + key):
                self._cursor.delete()

    def all(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """In the order of the keys, from one on."""
        cursor = self._transaction.cursor(self._table)
        if cursor.set_range(self._PREFIX + start):
            for entry, value in cursor:
                yield entry[1:], value

    def count(self) -> int:
        return int(self._transaction.stat(self._table)["entries"])

    def clear(self) -> None:
        self._transaction.drop(self._table, delete=False)


def _counted(count: int, row: bytes) -> bytes:
    if count < _COUNT_WIDE:
        return bytes((count,)) + row
    return b"\xff" + count.to_bytes(8, "little") + row


def _count(value: bytes) -> tuple[int, int]:
    """How often the row is there, and where it begins."""
    return (value[0], 1) if value[0] != _COUNT_WIDE else (int.from_bytes(value[1:9], "little"), 9)


def _successor(prefix: bytes) -> bytes | None:
    """The least key after all that begin so; None if there is none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes((stripped[-1] + 1,)) if stripped else None


def _never_there(row: bytes, old: int, weight: int) -> StateError:
    return StateError(
        "a row is taken away that was never there",
        detail=f"{-weight} times, of {old}: {row[:80]!r}",
        hint=REPAIR,
    )
