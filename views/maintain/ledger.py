"""Where each shard of a group stood when it was last noted: tells one that somebody put back by hand.

A shard only moves forward. One that is behind what was noted of it, or cannot be read, is not the group's any more:
the group is put back whole (copies.py). What happened since the last note is not noticed; it is taken at every clean
stop and with every copy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from cdc.errors import StateDamaged
from views.arrangement import Arrangement
from views.maintain.group import Group, write_whole
from views.maintain.nodes import Node
from views.maintain.worker import look_at, open_arrangement

FILE: Final = "ledger.json"


def note(group: Group) -> None:
    """To be called while no epoch runs."""
    write_whole(group.folder / FILE, msgspec.json.encode(_epochs(group, partial(look_at, group))))


def is_left_behind(group: Group, owner: int, *, durable: bool) -> bool:
    """Claims the state for its owner, too: to be called before anybody else uses it."""
    try:
        noted = msgspec.json.decode((group.folder / FILE).read_bytes(), type=dict[str, int])
    except (FileNotFoundError, msgspec.MsgspecError):
        return False
    try:
        found = _epochs(group, partial(open_arrangement, group, owner=owner, durable=durable, create=False))
    except StateDamaged:
        return True
    return any(found.get(place, -1) < noted[place] for place in noted.keys() & _places(group))


def _places(group: Group) -> set[str]:
    return {str(group.state_folder(node, shard).relative_to(group.folder)) for node, shard in group.places()}


def _epochs(group: Group, opened: Callable[[Node, int], Arrangement]) -> dict[str, int]:
    """By shard; those that have not begun are left out."""
    found: dict[str, int] = {}
    for node, shard in group.places():
        with opened(node, shard) as arrangement:
            epoch = arrangement.epoch
        if epoch is not None:
            found[str(group.state_folder(node, shard).relative_to(group.folder))] = epoch
    return found
