"""Counts what a logical replication stream says, without decoding a value: the cheapest reader there can be. Pure.

A message of the stream is either WAL data ('w', 24 bytes of header, then one pgoutput message) or a keepalive ('k').
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from cdc.position import Lsn

_ROWS: Final = frozenset(b"IUD")
_WAL_DATA: Final = ord("w")
_KEEPALIVE: Final = ord("k")
_COMMIT: Final = ord("C")
_HEADER_BYTES: Final = 25
_COMMIT_LSN: Final = struct.Struct(">xbq")
_STATUS: Final = struct.Struct(">cqqqqb")


@dataclass(slots=True)
class Tally:
    """Mutable on purpose: it is asked once for every message of the stream."""

    until: Lsn
    """The stream is done with the first commit at or after this LSN."""
    rows: int = 0
    commits: int = 0
    size_bytes: int = 0
    """Of pgoutput messages, without the envelope around them."""
    done: bool = False

    def take(self, message: bytes | memoryview) -> None:
        if message[0] != _WAL_DATA:
            return
        self.size_bytes += len(message) - _HEADER_BYTES
        kind = message[_HEADER_BYTES]
        if kind in _ROWS:
            self.rows += 1
        elif kind == _COMMIT:
            self.commits += 1
            _, lsn = _COMMIT_LSN.unpack_from(message, _HEADER_BYTES)
            self.done = lsn >= self.until.value


def wants_answer(message: bytes | memoryview) -> bool:
    """A keepalive whose sender would soon take us for dead."""
    return message[0] == _KEEPALIVE and message[-1] == 1


def nothing_flushed() -> bytes:
    """The answer that keeps the connection without moving the slot."""
    return _STATUS.pack(b"r", 0, 0, 0, 0, 0)
