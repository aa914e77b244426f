"""A demo that moves: a property market, a shop and page hits in Postgres, loaded from a seed and kept changing.

It stands before the path of a change: everything downstream sees it as any other database.
"""

from headwater.demo.dataset import LISTINGS, SEED, Size
from headwater.demo.load import DemoStatus, LoadReport, NotLoaded, Progress, ensure_loaded, load, read_status, reset
from headwater.demo.mover import Mover, Step
from headwater.demo.rows import TABLES

__all__ = [
    "LISTINGS",
    "SEED",
    "TABLES",
    "DemoStatus",
    "LoadReport",
    "Mover",
    "NotLoaded",
    "Progress",
    "Size",
    "Step",
    "ensure_loaded",
    "load",
    "read_status",
    "reset",
]
