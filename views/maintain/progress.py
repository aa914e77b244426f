"""How far a group is: a file beside its state, which may lag behind what it has published."""

from __future__ import annotations

import msgspec


class Progress(msgspec.Struct, frozen=True):
    """How far a group is."""

    offset: int
    is_snapshot_whole: bool = False
    """The initial snapshot has been read to its end: before that its views are not views of any moment."""
    is_live: bool = False
    """Its views are published."""
    lsn: int | None = None
    committed_at_us: int | None = None
    is_put_back: bool = False
    """Its state is older than what is published: the state counts, not the frontier."""
    canary: int | None = None
    """The last number of the source's canary that it has read."""
    gap: str = ""
    """The first number of it that was missing, in words."""
