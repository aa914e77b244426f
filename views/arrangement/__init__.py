"""What a stage remembers: an LMDB environment per stage and shard, written once an epoch.

environment.py   opening, growing, and telling damage
tables.py        what is in one: multisets of rows by key, and single entries
arrangement.py   the epochs: one transaction each, with the output saved in it
ownership.py     one writer at a time
snapshots.py     copies of it, and back
"""

from __future__ import annotations

from views.arrangement.arrangement import Arrangement, Output, Statistics, Writing
from views.arrangement.ownership import Owner
from views.arrangement.snapshots import restore, snapshot
from views.arrangement.tables import Changed, Entries, Multiset, Stored

__all__ = [
    "Arrangement",
    "Changed",
    "Entries",
    "Multiset",
    "Output",
    "Owner",
    "Statistics",
    "Stored",
    "Writing",
    "restore",
    "snapshot",
]
