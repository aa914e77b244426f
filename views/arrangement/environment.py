"""LMDB environments of this process: each folder opened once, its map grown on demand, its damage told apart.

LMDB must not be opened twice by one process, so handles are shared and counted: who only reads shares whatever is open,
and the last to leave closes it. A writer waits for readers of its own process; in the product they are apart, but for
states that nobody reads yet. After a fork the child opens its own.

The map must not be changed under a transaction. So readers map room for what another process may write meanwhile, which
costs addresses and no memory; beyond that, who comes waits until the others in this process are done.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import lmdb

from cdc.errors import StateDamaged, StateError

MAP_BYTES_FIRST: Final = 64 << 20
MAP_BYTES_MAX: Final = 1 << 40
READER_BYTES_FIRST: Final = 4 << 30
READER_ROOM: Final = 8
"""How often a file fits into the map of who only reads it."""
OTHERS_S_MAX: Final = 60.0
"""How long to wait for others in this process: for their transactions, or until they have closed."""
TABLES_MAX: Final = 32
DATA_FILE: Final = "data.mdb"

_open: dict[tuple[int, Path], Environment] = {}
_opening: Final = threading.Condition()


@dataclass(eq=False)
class Environment:
    """Safe to be used by several threads, each in transactions of its own."""

    folder: Path
    handle: Any
    readonly: bool
    tables: dict[str, Any] = field(default_factory=dict)
    users: int = 1
    _naming: threading.Lock = field(default_factory=threading.Lock)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _under_way: int = 0
    """Transactions of this process."""
    _maps: int = 0
    """How often the map was made anew."""

    def table(self, name: str, *, create: bool = False) -> Any:
        """Its handle, for transactions that begin after this. Not inside a write transaction."""
        with self._naming, reading_damage(self.folder):  # LMDB lets one transaction at a time open tables
            if name not in self.tables:
                try:
                    self.tables[name] = self._mapped(lambda: self.handle.open_db(name.encode(), create=create))
                except lmdb.NotFoundError as error:
                    raise _damaged(self.folder, f"no table {name}") from error
                self._ended()
            return self.tables[name]

    def names(self) -> list[str]:
        """Of all tables that are there."""
        with self.reading() as transaction:
            return [bytes(name).decode() for name, _ in transaction.cursor()]

    @contextmanager
    def reading(self) -> Iterator[Any]:
        with reading_damage(self.folder), self._transaction(write=False) as transaction:
            yield transaction

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """Commits at the end, aborts on an error. lmdb.MapFullError passes through: grow, and do it again."""
        with reading_damage(self.folder), self._transaction(write=True) as transaction:
            yield transaction
        self._extend()

    def grow(self) -> None:
        """Twice the room. Not inside a transaction."""
        seen, size = self._maps, self.handle.info()["map_size"] * 2
        if size > MAP_BYTES_MAX:
            raise StateError(
                f"the state in {self.folder} has reached its limit",
                detail=f"{MAP_BYTES_MAX >> 30} GiB",
                hint="use more shards: headwater config show",
            )
        self._remap(seen, size)

    def check_whole(self) -> None:
        """A file that was cut off must be told from a whole one before a page of it is touched: the access itself would
        kill the process."""
        have, needed = _file_bytes(self.folder), self._bytes_needed()
        if have < needed:
            detail = f"the file has {have:,} bytes and should have {needed:,}"
            raise _damaged(self.folder, detail)

    def _extend(self) -> None:
        """LMDB does not write pages at the end that it took and gave back: the file would look cut off."""
        have, needed = _file_bytes(self.folder), self._bytes_needed()
        if have < needed:
            descriptor = os.open(self.folder / DATA_FILE, os.O_WRONLY)
            try:
                os.posix_fallocate(descriptor, have, needed - have)  # never shrinks, should another process write
            finally:
                os.close(descriptor)

    def _bytes_needed(self) -> int:
        return int((self.handle.info()["last_pgno"] + 1) * self.handle.stat()["psize"])

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[Any]:
        begun = self._mapped(lambda: self.handle.begin(write=write))
        try:
            with begun as transaction:
                yield transaction
        finally:
            self._ended()

    def _mapped(self, begin: Callable[[], Any]) -> Any:
        """What begins under a map that is large enough, and is under way until `_ended`."""
        while True:
            with self._changed:
                self._under_way += 1
                seen = self._maps
            try:
                return begin()
            except lmdb.MapResizedError:  # another process has grown it
                self._ended()
            except BaseException:
                self._ended()
                raise
            self._remap(seen, _map_bytes(self.folder, readonly=self.readonly))

    def _ended(self) -> None:
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()

    def _remap(self, seen: int, size: int) -> None:
        """Makes a larger map, unless somebody else has done so."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._maps != seen or not self._under_way, OTHERS_S_MAX):
                raise _in_use(self.folder, f"{self._under_way} transactions, and it has grown")
            if self._maps == seen:
                with reading_damage(self.folder):
                    self.handle.set_mapsize(size)
                self._maps += 1
                self._changed.notify_all()


@contextmanager
def opened(folder: Path) -> Iterator[Environment]:
    """For who only reads, in whatever process."""
    environment = open_environment(folder, create=False, durable=True, readonly=True)
    try:
        yield environment
    finally:
        close_environment(environment)


def open_environment(folder: Path, *, create: bool, durable: bool, readonly: bool = False) -> Environment:
    place = folder.resolve()
    key = os.getpid(), place
    with _opening:
        if not readonly and not _opening.wait_for(lambda: not (key in _open and _open[key].readonly), OTHERS_S_MAX):
            raise _in_use(place, f"{_open[key].users} readers of this process")
        found = _open.get(key)
        if found is not None:
            found.users += 1
            return found
        if create:
            place.mkdir(parents=True, exist_ok=True)
        elif not (place / DATA_FILE).exists():
            raise StateDamaged(f"no state in {folder}", detail=f"{DATA_FILE} is not there", hint=REPAIR)
        opened = Environment(place, _handle(place, durable=durable, readonly=readonly), readonly)
        _open[key] = opened
        return opened


def close_environment(environment: Environment) -> None:
    with _opening:
        environment.users -= 1
        if environment.users == 0:
            del _open[os.getpid(), environment.folder]
            environment.handle.close()
            _opening.notify_all()


def _handle(folder: Path, *, durable: bool, readonly: bool) -> Any:
    with reading_damage(folder):
        return lmdb.open(
            str(folder),
            map_size=_map_bytes(folder, readonly=readonly),
            max_dbs=TABLES_MAX,
            readonly=readonly,
            sync=durable,
            readahead=False,
            meminit=False,
        )


def _map_bytes(folder: Path, *, readonly: bool) -> int:
    have = _file_bytes(folder)
    return max(READER_BYTES_FIRST, have * READER_ROOM) if readonly else max(MAP_BYTES_FIRST, have)


def _file_bytes(folder: Path) -> int:
    try:
        return (folder / DATA_FILE).stat().st_size
    except FileNotFoundError:
        return 0


REPAIR: Final = "headwater verify VIEW --repair"

_DAMAGE: Final = (
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.VersionMismatchError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
)


@contextmanager
def reading_damage(folder: Path) -> Iterator[None]:
    """LMDB's errors as StateErrors, but for a map that is full."""
    try:
        yield
    except lmdb.MapFullError:
        raise
    except _DAMAGE as error:
        raise _damaged(folder, str(error)) from error
    except lmdb.Error as error:
        raise StateError(f"the state in {folder} cannot be read or written", detail=str(error), hint="df") from error


def _damaged(folder: Path, detail: str) -> StateDamaged:
    return StateDamaged(f"the state in {folder} is damaged", detail=detail, hint=REPAIR)


def _in_use(folder: Path, detail: str) -> StateError:
    return StateError(
        f"the state in {folder} is in use", detail=f"{detail}; for {OTHERS_S_MAX:g} s", hint="headwater status"
    )


def pages(stat: Mapping[str, int]) -> int:
    return stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
