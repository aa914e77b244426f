"""What a check of the source found: shown by `doctor` and `status`, raised by preflight. A value, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    name: str
    """What was looked at."""
    detail: str
    """What was seen there."""
    hint: str = ""
    """The command that helps; empty where nothing needs help."""
