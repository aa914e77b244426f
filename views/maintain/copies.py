"""Copies of a group's state, taken at one position while it goes on, and the way back: copy, then the log.

A copy is complete or not there. Every shard is frozen between two epochs, in a moment; the copying itself holds nobody
up. A group whose state was lost, damaged or left behind is put back whole: its shards must stand at one position.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import lmdb
import msgspec

from cdc.errors import StateError
from cdc.position import Lsn
from views.arrangement.environment import Environment, opened
from views.maintain import seed
from views.maintain.group import FILE as GROUP_FILE
from views.maintain.group import Group, write_whole
from views.maintain.nodes import Node
from views.maintain.progress import Progress
from views.maintain.runner import GroupRunner
from views.maintain.seed import Seed
from views.mirror import ROWS

FILE: Final = "copy.json"
UNFINISHED: Final = "."
"""What the name of a copy that is being written begins with."""


class Copy(msgspec.Struct, frozen=True):
    version_of: int
    """The incarnation of the state that was copied."""
    progress: Progress


class _Frozen(NamedTuple):
    """A shard's state as of one moment."""

    folder: Path
    environment: Environment
    transaction: Any


@contextmanager
def _frozen(group: Group, places: Iterable[tuple[Node, int]], *tables: str) -> Iterator[list[_Frozen]]:
    """`tables` are those that will be looked at."""
    with ExitStack() as closing:
        found = []
        for node, shard in places:
            folder = group.state_folder(node, shard)
            environment = closing.enter_context(opened(folder))
            for table in tables:
                environment.table(table)
            found.append(_Frozen(folder, environment, closing.enter_context(environment.reading())))
        yield found


def copy_group(runner: GroupRunner, copies: Path) -> Path:
    """A copy of the group as it is now; the one before is removed when this one is complete. Raises StateError when it
    cannot be written, and leaves the one before."""
    with ExitStack() as closing:
        with runner.lock:
            group, progress = runner.group, runner.progress
            frozen = closing.enter_context(_frozen(group, group.places()))
        partial = copies / f"{UNFINISHED}{group.spec.id}.{uuid.uuid4().hex}"
        try:
            _write(frozen, group.state, partial)
            write_whole(partial / FILE, msgspec.json.encode(Copy(group.spec.incarnation, progress)))
            return _put(partial, copies / group.spec.id / str(progress.offset))
        except (OSError, lmdb.Error) as error:
            raise StateError(
                "the state of the views could not be copied", detail=str(error), hint="headwater doctor"
            ) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def take_seed(runner: GroupRunner, group: Group) -> Seed | None:
    """The mirrors of a group as they are now, for the first epoch of another; the group itself goes on. None if they
    do not hold all that it needs, stand within an epoch, or cannot be copied."""
    partial = group.folder / f".{seed.FOLDER}"
    seed.remove(group)
    try:
        with ExitStack() as closing:
            with runner.lock:
                if runner.intended is not None or not seed.can_seed(runner, group):
                    return None
                other, progress = runner.group, runner.progress
                frozen = closing.enter_context(_frozen(other, seed.needed(other, group), ROWS))
            taken = Seed(progress, sum(map(_rows, frozen)))
            shutil.rmtree(partial, ignore_errors=True)
            _write(frozen, other.state, partial / other.state.name)
            write_whole(partial / GROUP_FILE, msgspec.json.encode(other.spec))
            write_whole(partial / seed.FILE, msgspec.json.encode(taken))
            os.replace(partial, seed.folder_of(group))
            return taken
    except (OSError, lmdb.Error, StateError):  # a full disk, say: the log says the same
        shutil.rmtree(partial, ignore_errors=True)
        return None


def newest(group: Group, copies: Path) -> tuple[Path, Copy] | None:
    folder = copies / group.spec.id
    found = sorted((int(each.name), each) for each in folder.glob("[0-9]*")) if folder.is_dir() else []
    for _, each in reversed(found):
        if (each / FILE).exists():
            return each, msgspec.json.decode((each / FILE).read_bytes(), type=Copy)
    return None


def unfinished(copies: Path) -> list[Path]:
    """Being written, or left by who was killed meanwhile."""
    return list(copies.glob(f"{UNFINISHED}*"))


def remove_unfinished(copies: Path) -> None:
    """For who alone may write copies, before they write any."""
    for folder in unfinished(copies):
        shutil.rmtree(folder, ignore_errors=True)


def without(lsn: Lsn | None, copies: Path) -> list[Path]:
    """Those of a moment before it, as they say themselves: the copying may have ended long after. None is all."""
    found = [each for each in copies.glob("*/[0-9]*") if not each.parent.name.startswith(UNFINISHED)]
    return [each for each in found if lsn is None or not _includes(each / FILE, lsn)]


def _includes(file: Path, lsn: Lsn) -> bool:
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Copy)
    except (FileNotFoundError, msgspec.MsgspecError):
        return False
    return found.progress.lsn is not None and found.progress.lsn >= lsn.value


def put_back(runner: GroupRunner, copies: Path) -> Progress:
    """Replaces the group's state by its newest copy, or by nothing, and returns where it is then: the log leads on."""
    with runner.lock:
        old, found = runner.group, newest(runner.group, copies)
        spec = msgspec.structs.replace(old.spec, incarnation=old.spec.incarnation + 1)
        group = Group(old.folder, spec)
        shutil.rmtree(group.state, ignore_errors=True)
        if found is None:
            progress = Progress(spec.start)
        else:
            shutil.copytree(found[0], group.state, ignore=shutil.ignore_patterns(FILE))
            progress = found[1].progress
        is_live = runner.progress.is_live
        progress = msgspec.structs.replace(progress, is_live=is_live, is_put_back=is_live)
        runner.replace_state(group, progress)
        if found is None:
            runner.make_state()
        shutil.rmtree(old.state, ignore_errors=True)
        return progress


def _write(frozen: Iterable[_Frozen], base: Path, target: Path) -> None:
    for folder, environment, transaction in frozen:
        place = target / folder.relative_to(base)
        place.mkdir(parents=True)
        environment.handle.copy(str(place), compact=True, txn=transaction)


def _rows(frozen: _Frozen) -> int:
    return int(frozen.transaction.stat(frozen.environment.table(ROWS))["entries"])


def _put(partial: Path, folder: Path) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(partial, folder)
    for older in folder.parent.iterdir():
        if older != folder:
            shutil.rmtree(older, ignore_errors=True)
    return folder
