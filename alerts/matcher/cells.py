"""The map as square cells of degrees, at several sizes: which cells a circle or a box lies in.

A cover holds every point that the literal can be met by, and others. Sizes are powers of two, so that a point's cell is
the same number whoever works it out.
"""

from __future__ import annotations

from math import asin, cos, degrees, floor, frexp, pi, radians, sin
from typing import Final, NamedTuple

from alerts.matcher.literals import Inside, Within
from search.geo import EARTH_M

SIZES_DEGREES: Final = tuple(2.0**power for power in range(4, -8, -1))
"""From 16 degrees, some 1,800 km, down to 1/128, some 900 m."""
CELLS_MAX: Final = 9
LEVELS_TRIED: Final = 3
_PAD_DEGREES: Final = 1e-6
"""More than the rounding of a circle's box: a tenth of a metre."""


class Area(NamedTuple):
    """West is not greater than east."""

    north: float
    west: float
    south: float
    east: float


class Cover(NamedTuple):
    level: int
    cells: tuple[int, ...]


def cell(degrees_north: float, degrees_east: float, size: float) -> int:
    return (floor((degrees_north + 90.0) / size) << 32) | floor((degrees_east + 180.0) / size)


def covers(literal: Within | Inside) -> list[Cover]:
    """The finest covers of few cells; none when it is wider than the coarsest allow."""
    areas = _circle(literal) if isinstance(literal, Within) else _box(literal)
    made: list[Cover] = []
    widest = max(max(area.north - area.south, area.east - area.west) for area in areas)
    finest = max(0, min(len(SIZES_DEGREES) - 1, 6 - frexp(widest)[1]))  # about four cells across
    for level in range(finest, -1, -1):
        size = SIZES_DEGREES[level]
        if sum(_count(area, size) for area in areas) <= CELLS_MAX:
            cells = tuple(sorted({number for area in areas for number in _cells(area, size)}))
            if not made or len(cells) < len(made[-1].cells):
                made.append(Cover(level, cells))
        if len(made) == LEVELS_TRIED or (made and len(made[-1].cells) == 1):
            break
    return made


def _count(area: Area, size: float) -> int:
    low, high = cell(area.south, area.west, size), cell(area.north, area.east, size)
    return ((high >> 32) - (low >> 32) + 1) * ((high & 0xFFFF_FFFF) - (low & 0xFFFF_FFFF) + 1)


def _cells(area: Area, size: float) -> list[int]:
    low, high = cell(area.south, area.west, size), cell(area.north, area.east, size)
    rows = range(low >> 32, (high >> 32) + 1)
    columns = range(low & 0xFFFF_FFFF, (high & 0xFFFF_FFFF) + 1)
    return [row << 32 | column for row in rows for column in columns]


def _box(literal: Inside) -> list[Area]:
    north, west, south, east = (min(180.0, max(-180.0, side)) for side in literal[1:])
    north, south = min(90.0, north), max(-90.0, south)
    if west <= east:
        return [Area(north, west, south, east)]
    return [Area(north, west, south, 180.0), Area(north, -180.0, south, east)]


def _circle(literal: Within) -> list[Area]:
    angle = literal.radius_m / EARTH_M
    reach = degrees(angle) + _PAD_DEGREES
    north, south = literal.lat + reach, literal.lat - reach
    if north >= 90 or south <= -90 or angle >= pi / 2:  # a pole lies in it: every longitude does
        return [Area(min(90.0, north), -180.0, max(-90.0, south), 180.0)]
    aside = degrees(asin(min(1.0, sin(angle) / cos(radians(literal.lat))))) + _PAD_DEGREES
    west, east = literal.lon - aside, literal.lon + aside
    if west < -180:
        return [Area(north, west + 360, south, 180.0), Area(north, -180.0, south, east)]
    if east > 180:
        return [Area(north, west, south, 180.0), Area(north, -180.0, south, east - 360)]
    return [Area(north, west, south, east)]
