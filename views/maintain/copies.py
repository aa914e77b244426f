"""Copies of a group's state, taken at one position while it goes on, and the way back: copy, then the log.

A copy is complete or not there. Every shard is frozen between two epochs, in a moment; the copying itself holds nobody
up. A group whose state was lost, damaged or left behind is put back whole: its shards must stand at one position.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import lmdb
import msgspec

from views.arrangement.environment import TABLES_MAX
from views.maintain.group import Group, write_whole
from views.maintain.runner import GroupRunner, Progress

FILE: Final = "copy.json"


class Copy(msgspec.Struct, frozen=True):
    version_of: int
    """The incarnation of the state that was copied."""
    progress: Progress


@contextmanager
def _frozen(group: Group) -> Iterator[list[tuple[Path, Any, Any]]]:
    with ExitStack() as closing:
        found = []
        for node, shard in group.places():
            folder = group.state_folder(node, shard)
            environment = closing.enter_context(
                lmdb.open(str(folder), readonly=True, max_dbs=TABLES_MAX, readahead=False)
            )
            found.append((folder, environment, closing.enter_context(environment.begin())))
        yield found


def copy_group(runner: GroupRunner, copies: Path) -> Path:
    """A copy of the group as it is now; the one before is removed when this one is complete."""
    with ExitStack() as closing:
        with runner.lock:
            group, progress = runner.group, runner.progress
            frozen = closing.enter_context(_frozen(group))
        partial = copies / f".{group.spec.id}.{uuid.uuid4().hex}"
        try:
            for folder, environment, transaction in frozen:
                target = partial / folder.relative_to(group.state)
                target.mkdir(parents=True)
                environment.copy(str(target), compact=True, txn=transaction)
            write_whole(partial / FILE, msgspec.json.encode(Copy(group.spec.incarnation, progress)))
            return _put(partial, copies / group.spec.id / str(progress.offset))
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def newest(group: Group, copies: Path) -> tuple[Path, Copy] | None:
    folder = copies / group.spec.id
    found = sorted((int(each.name), each) for each in folder.glob("[0-9]*")) if folder.is_dir() else []
    for _, each in reversed(found):
        if (each / FILE).exists():
            return each, msgspec.json.decode((each / FILE).read_bytes(), type=Copy)
    return None


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


def _put(partial: Path, folder: Path) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(partial, folder)
    for older in folder.parent.iterdir():
        if older != folder:
            shutil.rmtree(older, ignore_errors=True)
    return folder
