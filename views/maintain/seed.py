"""A group's first epoch, taken from the tables as another group knows them instead of from the log up to there.

    live group ─ frozen between two epochs ─▶ its mirrors, copied ─▶ the new group's first epoch ─▶ the log from there

The seed holds what the log up to its offset comes to, so nothing else is different: a group that loses its state later
reads that part of the log after all.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from views.maintain.group import Group, mirror_shard
from views.maintain.intake import Note, Run
from views.maintain.nodes import MirrorNode
from views.maintain.progress import Progress

if TYPE_CHECKING:
    from views.maintain.runner import GroupRunner

FOLDER: Final = "seed"
FILE: Final = "seed.json"


class Seed(msgspec.Struct, frozen=True):
    progress: Progress
    """Of the group that it was taken from."""
    rows: int

    @property
    def offset(self) -> int:
        return self.progress.offset

    def note(self) -> Note:
        """What the records up to there would have said."""
        known = self.progress
        return Note(
            records=self.rows,
            is_last_of_snapshot=True,
            marked_offset=known.offset,
            last_offset=known.offset - 1,
            commit_offset=known.offset - 1,
            commit_lsn=known.lsn,
            committed_at_us=known.committed_at_us,
            canary=[] if known.canary is None else [Run(known.offset - 1, known.canary, known.canary)],
        )


def found(group: Group) -> Seed | None:
    """The one that lies beside a group; complete, or not there."""
    try:
        return msgspec.json.decode((folder_of(group) / FILE).read_bytes(), type=Seed)
    except FileNotFoundError:
        return None


def remove(group: Group) -> None:
    shutil.rmtree(folder_of(group), ignore_errors=True)


def folder_of(group: Group) -> Path:
    return group.folder / FOLDER


def can_seed(other: GroupRunner, group: Group) -> bool:
    """Whether a group holds, at one position, all that another would read up to there."""
    known, progress = other.group, other.progress
    if (known.spec.era, known.spec.topic_id) != (group.spec.era, group.spec.topic_id):
        return False
    is_whole = progress.is_snapshot_whole and not progress.gap and not progress.is_put_back
    return is_whole and all(any(_holds(one, node) for one in mirrors(known)) for node in mirrors(group))


def _holds(one: MirrorNode, other: MirrorNode) -> bool:
    mine, wanted = one.mirror, other.mirror
    is_same = (mine.table.relation, mine.table.key) == (wanted.table.relation, wanted.table.key)
    return is_same and {column for column in mine.kept if column.name not in mine.gone} >= set(wanted.kept)


def mirrors(group: Group) -> Iterator[MirrorNode]:
    return (node for node in group.nodes if isinstance(node, MirrorNode))


def needed(other: Group, group: Group) -> list[tuple[MirrorNode, int]]:
    """The places of one group's state that seed another."""
    tables = {node.table for node in mirrors(group)}
    return [(node, mirror_shard(node, other.spec.shards)) for node in mirrors(other) if node.table in tables]
