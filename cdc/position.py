"""Where a change stands: in the log (Position) and in Postgres' write-ahead log (Lsn). Both are totally ordered."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from cdc.errors import ConfigurationError

_LSN: Final = re.compile(r"^([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})$")
_POSITION: Final = re.compile(r"^(\d+):(\d+)$")


@dataclass(frozen=True, order=True, slots=True)
class Position:
    """A place in the change log.

    The era is the second at which this incarnation of the log began; it changes when the topic is made anew or the
    source's timeline does, so positions of a later era are always greater, and offsets of different eras never mix.
    """

    era: int
    offset: int

    def __str__(self) -> str:
        return f"{self.era}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Position:
        found = _POSITION.match(text.strip())
        if not found:
            raise ConfigurationError(
                f"not a position: {text!r}", detail="a position is written ERA:OFFSET", hint="headwater log tail --json"
            )
        return cls(int(found[1]), int(found[2]))


@dataclass(frozen=True, order=True, slots=True)
class Lsn:
    """A log sequence number of Postgres, printed the way Postgres prints it."""

    value: int

    def __str__(self) -> str:
        return f"{self.value >> 32:X}/{self.value & 0xFFFFFFFF:X}"

    def __sub__(self, other: Lsn) -> int:
        """Bytes of write-ahead log between the two."""
        return self.value - other.value

    @classmethod
    def parse(cls, text: str) -> Lsn:
        found = _LSN.match(text.strip())
        if not found:
            raise ConfigurationError(
                f"not an LSN: {text!r}",
                detail="an LSN is written like 16/B374D848",
                hint="select pg_current_wal_insert_lsn()",
            )
        return cls(int(found[1], 16) << 32 | int(found[2], 16))
