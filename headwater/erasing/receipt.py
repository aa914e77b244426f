"""What an erasure found and did, place by place."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Line:
    """One place."""

    place: str
    found: int
    erased: int = 0
    pending: int = 0
    """Gone by `gone_by`, without anybody doing anything."""
    gone_by: datetime | None = None
    left: int | None = None
    """Of the check afterwards: found, and not pending. None before it."""
    note: str = ""

    def checked(self, found: int) -> Line:
        return replace(self, left=max(0, found - self.pending))


@dataclass(frozen=True, slots=True)
class Receipt:
    table: str
    keys: tuple[tuple[object, ...], ...]
    rows_in_source: int
    values: int
    """How many values of theirs were looked for."""
    shared: tuple[str, ...]
    lines: tuple[Line, ...] = field(default=())
    by_key: str = ""
    """The command that erases the same once the rows are gone."""
    at: datetime | None = None
    """None for a plan: nothing was done."""
    salt: str = ""
    """With it, the digests in the audit log can be proven to be of this condition and these keys."""

    @property
    def is_clean(self) -> bool:
        return all(not line.left for line in self.lines)

    @property
    def gone_by(self) -> datetime | None:
        return max((line.gone_by for line in self.lines if line.pending and line.gone_by), default=None)
