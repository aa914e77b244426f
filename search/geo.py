"""Points on the map: the great circle on a sphere, boxes and polygons in the plane of latitude and longitude.

The formulas are those of Elasticsearch (Lucene): haversine on a sphere of EARTH_M, polygon edges straight in degrees, a
box whose west is greater than its east goes over the date line. The index holds points to about 1 cm; only points that
close to a circle's or polygon's border could be judged differently there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import asin, cos, radians, sin, sqrt
from typing import Any, Final, NamedTuple

EARTH_M: Final = 6_371_008.7714
_POINT: Final = re.compile(r"\(([^,()]+),([^,()]+)\)")


class Point(NamedTuple):
    lat: float
    lon: float


def point(lat: Any, lon: Any) -> Point | None:
    """None for NULLs, and for what is not on the map."""
    if lat is None or lon is None:
        return None
    made = Point(float(lat), float(lon))
    return made if is_on_map(made) else None


def point_of_text(text: Any) -> Point | None:
    """Of Postgres' type point: (x,y) is (longitude,latitude)."""
    found = _POINT.fullmatch(text) if isinstance(text, str) else None
    return point(found[2], found[1]) if found else None


def is_on_map(place: Point) -> bool:
    """Not NaN: it compares with nothing."""
    return -90 <= place.lat <= 90 and -180 <= place.lon <= 180


def distance_m(one: Point, other: Point) -> float:
    half_lat = sin(radians(other.lat - one.lat) / 2)
    half_lon = sin(radians(other.lon - one.lon) / 2)
    chord = half_lat**2 + cos(radians(one.lat)) * cos(radians(other.lat)) * half_lon**2
    return 2 * EARTH_M * asin(min(1.0, sqrt(chord)))


def in_box(place: Point, north: float, west: float, south: float, east: float) -> bool:
    """Borders included."""
    if not south <= place.lat <= north:
        return False
    if west <= east:
        return west <= place.lon <= east
    return place.lon >= west or place.lon <= east


def in_polygon(place: Point, corners: Sequence[Point]) -> bool:
    """By counting the edges that a ray to the east crosses."""
    inside = False
    for one, other in edges(corners):
        if (one.lat > place.lat) != (other.lat > place.lat):
            slope = (place.lat - one.lat) / (other.lat - one.lat)
            inside ^= place.lon < one.lon + slope * (other.lon - one.lon)
    return inside


def edges(corners: Sequence[Point]) -> list[tuple[Point, Point]]:
    return list(zip(corners, [*corners[1:], corners[0]], strict=True))


def area(corners: Sequence[Point]) -> float:
    """Twice the area in square degrees; its sign says which way round the corners are walked."""
    return sum(one.lon * other.lat - other.lon * one.lat for one, other in edges(corners))


def crosses_itself(corners: Sequence[Point]) -> bool:
    """Whether two edges that are not neighbours meet."""
    sides = edges(corners)
    last = len(sides) - 1
    return any(
        _meet(*sides[i], *sides[j])
        for i in range(len(sides))
        for j in range(i + 2, len(sides))
        if not (i == 0 and j == last)
    )


def _meet(a: Point, b: Point, c: Point, d: Point) -> bool:
    apart = max(a.lat, b.lat) < min(c.lat, d.lat) or max(c.lat, d.lat) < min(a.lat, b.lat)
    apart |= max(a.lon, b.lon) < min(c.lon, d.lon) or max(c.lon, d.lon) < min(a.lon, b.lon)
    return not apart and _turn(a, b, c) * _turn(a, b, d) <= 0 and _turn(c, d, a) * _turn(c, d, b) <= 0


def _turn(a: Point, b: Point, c: Point) -> int:
    cross = (b.lon - a.lon) * (c.lat - a.lat) - (b.lat - a.lat) * (c.lon - a.lon)
    return (cross > 0) - (cross < 0)
