"""Numbers as Postgres takes them, whole arrays at a time: no Python object for each."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

_HEADER: Final = struct.Struct("!iiIii")
"""Dimensions, whether there are NULLs, the elements' type, how many, the first one's number."""
_ELEMENT: Final = np.dtype([("size", ">i4"), ("value", ">i8")])
_BIGINT: Final = 20
_BIGINTS: Final = 1016


@dataclass(frozen=True, slots=True)
class Bigints:
    """Of any integers: a parameter that is a bigint[]."""

    values: Any


class _Binary(Dumper):
    format = Format.BINARY
    oid = _BIGINTS

    def dump(self, obj: Bigints) -> bytes:
        elements = np.empty(len(obj.values), _ELEMENT)
        elements["size"], elements["value"] = 8, obj.values
        return _HEADER.pack(1, 0, _BIGINT, len(elements), 1) + elements.tobytes()


psycopg.adapters.register_dumper(Bigints, _Binary)
