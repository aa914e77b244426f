"""LMDB environments of this process: each folder opened once, its map grown on demand, its damage told apart.

LMDB must not be opened twice by one process, so handles are shared and counted. After a fork the child opens its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import lmdb

from cdc.errors import StateDamaged, StateError

MAP_BYTES_FIRST: Final = 64 << 20
MAP_BYTES_MAX: Final = 1 << 40
TABLES_MAX: Final = 32
DATA_FILE: Final = "data.mdb"

_open: dict[tuple[int, Path], Environment] = {}
_opening: Final = threading.Lock()


@dataclass(eq=False)
class Environment:
    folder: Path
    handle: Any
    tables: dict[str, Any] = field(default_factory=dict)
    users: int = 1

    def table(self, name: str) -> Any:
        """Its handle, made if it was not there. Not inside a write transaction."""
        if name not in self.tables:
            with reading_damage(self.folder):
                self.tables[name] = self.handle.open_db(name.encode())
        return self.tables[name]

    @contextmanager
    def reading(self) -> Iterator[Any]:
        with reading_damage(self.folder), self._begin(write=False) as transaction:
            yield transaction

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """Commits at the end, aborts on an error. lmdb.MapFullError passes through: grow, and do it again."""
        with reading_damage(self.folder), self._begin(write=True) as transaction:
            yield transaction
        self._extend()

    def grow(self) -> None:
        """Twice the room. No transaction may be under way in this process."""
        size = self.handle.info()["map_size"] * 2
        if size > MAP_BYTES_MAX:
            raise StateError(
                f"the state in {self.folder} has reached its limit",
                detail=f"{MAP_BYTES_MAX >> 30} GiB",
                hint="use more shards: headwater config show",
            )
        self.handle.set_mapsize(size)

    def check_whole(self) -> None:
        """A file that was cut off must be told from a whole one before a page of it is touched: the access itself would
        kill the process."""
        have, needed = _file_bytes(self.folder), self._bytes_needed()
        if have < needed:
            detail = f"the file has {have:,} bytes and should have {needed:,}"
            raise StateDamaged(f"the state in {self.folder} is damaged", detail=detail, hint=REPAIR)

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

    def _begin(self, *, write: bool) -> Any:
        try:
            return self.handle.begin(write=write)
        except lmdb.MapResizedError:  # another process has grown it
            self.handle.set_mapsize(0)
            return self.handle.begin(write=write)


def open_environment(folder: Path, *, create: bool, durable: bool) -> Environment:
    place = folder.resolve()
    with _opening:
        found = _open.get((os.getpid(), place))
        if found is not None:
            found.users += 1
            return found
        if not create and not (place / DATA_FILE).exists():
            raise StateDamaged(f"no state in {folder}", detail=f"{DATA_FILE} is not there", hint=REPAIR)
        opened = Environment(place, _opened(place, durable=durable))
        try:
            opened.check_whole()
        except StateError:
            opened.handle.close()
            raise
        _open[os.getpid(), place] = opened
        return opened


def close_environment(environment: Environment) -> None:
    with _opening:
        environment.users -= 1
        if environment.users == 0:
            del _open[os.getpid(), environment.folder]
            environment.handle.close()


def _opened(folder: Path, *, durable: bool) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    with reading_damage(folder):
        return lmdb.open(
            str(folder),
            map_size=max(MAP_BYTES_FIRST, _file_bytes(folder)),
            max_dbs=TABLES_MAX,
            sync=durable,
            readahead=False,
            meminit=False,
        )


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
    """LMDB's errors about the file as StateErrors."""
    try:
        yield
    except _DAMAGE as error:
        raise StateDamaged(f"the state in {folder} is damaged", detail=str(error), hint=REPAIR) from error
    except lmdb.DiskError as error:
        raise StateError(f"the state in {folder} cannot be read or written", detail=str(error), hint="df") from error


def pages(stat: Mapping[str, int]) -> int:
    return stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
