"""Draws headwater/pages/static/site_world.json: coasts and borders for the map, once, by a developer.

    npm pack world-atlas@2 && tar xf world-atlas-2.*.tgz && python tools/draw_world.py package/countries-50m.json

The file is Natural Earth's (public domain), as TopoJSON. What comes out are two SVG paths in web Mercator, the whole
world WORLD units wide: simplified to what is seen at the size of a country; a street's size has no coasts to show.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

WORLD = 65_536
TOLERANCE = 7.0
"""How far a line may be from the coast, in units: some four kilometres at the equator."""
RING_SPAN_MIN = 60
"""Islands smaller than this are left out."""
LATITUDE_MAX = 84.0
OUT = Path(__file__).parents[1] / "headwater" / "pages" / "static" / "site_world.json"

Pixel = tuple[int, int]
Line = list[Pixel]


def main() -> None:
    topology = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    arcs = [simplified(line) for line in lines(topology)]
    land = [joined(ring, arcs) for ring in rings(topology["objects"]["land"]["geometries"])]
    uses = Counter(
        arc if arc >= 0 else ~arc for ring in rings(topology["objects"]["countries"]["geometries"]) for arc in ring
    )
    borders = [arcs[number] for number, count in uses.items() if count > 1]
    drawn = {
        "size": WORLD,
        "land": path([ring for ring in land if span(ring) >= RING_SPAN_MIN], closed=True),
        "borders": path(borders, closed=False),
    }
    OUT.write_text(json.dumps(drawn) + "\n", encoding="utf-8")


def lines(topology: dict) -> Iterator[Line]:
    (scale_x, scale_y), (left, bottom) = topology["transform"]["scale"], topology["transform"]["translate"]
    for arc in topology["arcs"]:
        x = y = 0
        line = []
        for step_x, step_y in arc:
            x, y = x + step_x, y + step_y
            line.append(mercator(x * scale_x + left, y * scale_y + bottom))
        yield line


def mercator(lon: float, lat: float) -> Pixel:
    lat = math.radians(max(-LATITUDE_MAX, min(LATITUDE_MAX, lat)))
    y = 0.5 - math.log(math.tan(math.pi / 4 + lat / 2)) / (2 * math.pi)
    return round((lon + 180) / 360 * WORLD), round(y * WORLD)


def simplified(line: Line) -> Line:
    """Douglas and Peucker's: the ends stay, so that neighbours still meet."""
    if len(line) < 3:
        return line
    first, last = line[0], line[-1]
    far, at = max((distance(point, first, last), number) for number, point in enumerate(line[1:-1], 1))
    if far <= TOLERANCE:
        return [first, last]
    return simplified(line[: at + 1])[:-1] + simplified(line[at:])


def distance(point: Pixel, first: Pixel, last: Pixel) -> float:
    (x, y), (x1, y1), (x2, y2) = point, first, last
    length = math.hypot(x2 - x1, y2 - y1)
    if length == 0:
        return math.hypot(x - x1, y - y1)
    return abs((x2 - x1) * (y1 - y) - (x1 - x) * (y2 - y1)) / length


def rings(geometries: Sequence[dict]) -> Iterator[list[int]]:
    for geometry in geometries:
        if geometry["type"] == "GeometryCollection":
            yield from rings(geometry["geometries"])
        elif geometry["type"] in ("Polygon", "MultiPolygon"):
            polygons = [geometry["arcs"]] if geometry["type"] == "Polygon" else geometry["arcs"]
            yield from (ring for polygon in polygons for ring in polygon)


def joined(ring: list[int], arcs: list[Line]) -> Line:
    made: Line = []
    for number in ring:
        line = arcs[number] if number >= 0 else arcs[~number][::-1]
        made += line[1:] if made else line
    return unwrapped(made)


def unwrapped(line: Line) -> Line:
    """Over the date line it goes on beyond the edge, instead of back across the whole world."""
    made, shift = line[:1], 0
    for (before, _), (x, y) in pairwise(line):
        if abs(x - before) > WORLD // 2:
            shift += WORLD if x < before else -WORLD
        made.append((x + shift, y))
    return made


def span(ring: Line) -> int:
    xs, ys = [x for x, _ in ring], [y for _, y in ring]
    return max(max(xs) - min(xs), max(ys) - min(ys))


def path(found: list[Line], *, closed: bool) -> str:
    return "".join(_one(line) + ("z" if closed else "") for line in found)


def _one(line: Line) -> str:
    steps = [(x - px, y - py) for (px, py), (x, y) in pairwise(line) if (x, y) != (px, py)]
    return f"M{line[0][0]},{line[0][1]}" + ("l" + " ".join(f"{x},{y}" for x, y in steps) if steps else "")


if __name__ == "__main__":
    sys.setrecursionlimit(20_000)
    main()
