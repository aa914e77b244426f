"""Covers of the map: a point of a circle or a box lies in one of its cells, at every size, over poles and date line."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from alerts.matcher.cells import CELLS_MAX, SIZES_DEGREES, cell, covers
from alerts.matcher.literals import Inside, Within
from search.geo import Point, distance_m, in_box

lats = st.one_of(st.floats(-90, 90), st.sampled_from([-90.0, 0.0, 89.99, 90.0]))
lons = st.one_of(st.floats(-180, 180), st.sampled_from([-180.0, -179.99, 0.0, 180.0]))


@settings(max_examples=300)
@given(lat=lats, lon=lons, radius_m=st.floats(0.1, 2e6), north=st.floats(-1, 1), east=st.floats(-1, 1))
def test_a_circle_lies_in_its_cells(lat: float, lon: float, radius_m: float, north: float, east: float) -> None:
    place = Point(lat + north * radius_m / 111_000, (lon + east * radius_m / 111_000 + 180) % 360 - 180)
    assume(-90 <= place.lat <= 90 and distance_m(Point(lat, lon), place) <= radius_m)
    for cover in covers(Within(False, lat, lon, radius_m)):
        assert cell(place.lat, place.lon, SIZES_DEGREES[cover.level]) in cover.cells
        assert len(cover.cells) <= CELLS_MAX


@given(one=lats, other=lats, west=lons, east=lons, lat=lats, lon=lons)
def test_a_box_lies_in_its_cells(one: float, other: float, west: float, east: float, lat: float, lon: float) -> None:
    box = (max(one, other), west, min(one, other), east)
    assume(in_box(Point(lat, lon), *box))
    for cover in covers(Inside(False, *box)):
        assert cell(lat, lon, SIZES_DEGREES[cover.level]) in cover.cells


def test_a_walk_around_the_corner_is_a_few_small_cells() -> None:
    finest = covers(Within(False, 48.85, 2.35, 1_000.0))[0]
    assert SIZES_DEGREES[finest.level] < 0.02
