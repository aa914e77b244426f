"""How much a lane takes at a time, and how often it looks and tries again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LaneLimits:
    queue_rows_max: int = 20_000
    queue_epochs_max: int = 50
    chunk_rows_max: int = 5_000
    task_records_min: int = 20_000
    """From so many on the topic is followed in a task of Spark's."""
    task_records_max: int = 200_000
    """About so many are read in a task at most: between two of them progress is told."""
    backoff_s: float = 0.5
    backoff_s_max: float = 30.0
    check_s: float = 5.0
    """How often a place is asked whether it is still what it was."""
    side_pause_s: float = 0.25
    """What is not shown is fed so often, with all that came meanwhile: nobody waits for it."""
