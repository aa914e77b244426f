"""The geometric types: from Debezium's structs to the text that Postgres prints. Each reader raises ValueError.

point and circle come as numbers, line as its three coefficients; lseg, box and path as well-known binary (WKB), whose
doubles are exact, with the name of the type beside it, and for a path whether it is closed. A polygon's ring arrives
closed, whether or not its last point repeats the first: that cannot be undone, and the type is refused (limits.py).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from cdc.pgtypes import wire
from cdc.pgtypes.literals import float_text

_LITTLE_ENDIAN: Final = 1
_LINE_STRING, _POLYGON = 2, 3
_HEADER: Final = struct.Struct("<BII")
"""Byte order, kind of geometry, and how many points or rings follow."""
_COUNT: Final = struct.Struct("<I")
_POINT: Final = struct.Struct("<dd")

_BOX_POINTS: Final = 5
"""The corners and the first again; Postgres' two are the first and its opposite."""
_LSEG_POINTS: Final = 2

Point = tuple[float, float]


def point(value: object) -> str:
    return _point_text(_center(value))


def line(value: object) -> str:
    """A x + B y + C = 0."""
    parts = wire.struct(value)
    return "{" + ",".join(float_text(wire.double(parts.get(name))) for name in "abc") + "}"


def circle(value: object) -> str:
    parts = wire.struct(value)
    return f"<{_point_text(_center(parts.get('center')))},{float_text(wire.double(parts.get('radius')))}>"


def lseg(value: object) -> str:
    ends = _line_string(_wkb(value, "lseg"))
    if len(ends) != _LSEG_POINTS:
        raise ValueError(f"a line segment with {len(ends)} ends")
    return f"[{_points_text(ends)}]"


def box(value: object) -> str:
    ring = _ring(_wkb(value, "box"))
    if len(ring) != _BOX_POINTS:
        raise ValueError(f"a box with {len(ring)} points in its ring")
    return _points_text((ring[0], ring[2]))


def path(value: object) -> str:
    points = _points_text(_line_string(_wkb(value, "path")))
    closed = _extensions(value).get("closed")
    if closed not in ("true", "false"):
        raise ValueError(f"a path that is closed: {closed!r}")
    return f"({points})" if closed == "true" else f"[{points}]"


def _center(value: object) -> Point:
    parts = wire.struct(value)
    return wire.double(parts.get("x")), wire.double(parts.get("y"))


def _extensions(value: object) -> Mapping[str, object]:
    return wire.struct(wire.struct(value).get("extensions"))


def _wkb(value: object, kind: str) -> bytes:
    found = _extensions(value).get("type")
    if found != kind:
        raise ValueError(f"expected a {kind}, found a {found}")
    return wire.decoded(wire.struct(value).get("wkb"))


def _line_string(wkb: bytes) -> list[Point]:
    return _read_points(wkb, _HEADER.size, _read_header(wkb, _LINE_STRING))


def _ring(wkb: bytes) -> list[Point]:
    rings = _read_header(wkb, _POLYGON)
    if rings != 1 or len(wkb) < _HEADER.size + _COUNT.size:
        raise ValueError(f"expected one ring, found {rings}")
    return _read_points(wkb, _HEADER.size + _COUNT.size, _COUNT.unpack_from(wkb, _HEADER.size)[0])


def _read_header(wkb: bytes, kind: int) -> int:
    """How many parts the geometry has."""
    if len(wkb) < _HEADER.size:
        raise ValueError(f"a geometry of {len(wkb)} bytes")
    order, found, count = _HEADER.unpack_from(wkb)
    if (order, found) != (_LITTLE_ENDIAN, kind):
        raise ValueError(f"a geometry of kind {found} in byte order {order}")
    return int(count)


def _read_points(wkb: bytes, start: int, count: int) -> list[Point]:
    if len(wkb) - start != count * _POINT.size:
        raise ValueError(f"{count} points in {len(wkb) - start} bytes")
    return [(x, y) for x, y in _POINT.iter_unpack(wkb[start:])]


def _points_text(points: Sequence[Point]) -> str:
    return ",".join(map(_point_text, points))


def _point_text(at: Point) -> str:
    return f"({float_text(at[0])},{float_text(at[1])})"
