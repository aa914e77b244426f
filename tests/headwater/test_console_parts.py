"""What the console's pages are made of: the plan's drawing, SQL with its words told apart, bars, points."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from importlib import resources
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from cdc.catalog import Catalog, Column, Table
from cdc.events import TableName
from cdc.findings import Finding
from cdc.pgtypes import TypeSpec, pg_type
from cdc.position import Lsn, Position
from headwater.pages import bars
from headwater.pages.path_picture import picture
from headwater.pages.plan_graph import WIDTH, draw
from headwater.pages.rendering import environment
from headwater.pages.sessions import Session
from headwater.pages.sql_text import difference, highlighted
from headwater.pages.trail import Trail, point
from headwater.status import Status
from headwater.views.causes import Cause, Causes, CausingChange, Role
from headwater.views.kept import Occupied
from headwater.views.story import ColumnChange, Kind, Story, StoryVersion
from headwater.views_status import SinkLine
from tests.headwater.test_http import status
from views.definition import parse
from views.explain import describe
from views.maintain.registry import Epochs
from views.sql import plan_view

VIEW = """
CREATE MATERIALIZED VIEW card WITH (key = 'id') AS
SELECT a.id, a.name, count(b.id) AS parts FROM a LEFT JOIN b ON b.a_id = a.id JOIN c ON c.id = a.c_id
WHERE a.name <> 'x' GROUP BY a.id, a.name
"""


def table(name: str, *columns: str) -> Table:
    types = {
        column: pg_type(TypeSpec(*(("text", "text") if column == "name" else ("integer", "integer"))))
        for column in columns
    }
    return Table(ord(name), TableName("public", name), tuple(Column(n, t) for n, t in types.items()), ("id",), "d")


CATALOG = Catalog.of([table("a", "id", "name", "c_id"), table("b", "id", "a_id"), table("c", "id")])


# The plan's drawing


def test_boxes_of_a_plan_do_not_overlap_and_data_flows_to_the_right() -> None:
    (definition,) = parse(VIEW)
    plan = plan_view(definition, CATALOG)
    drawn = draw(plan.root, "card", plan.key, [Occupied("table", "public.a", ("id",), 7, 4_096)])
    for one, other in combinations(drawn.boxes, 2):
        apart = one.x + WIDTH <= other.x or other.x + WIDTH <= one.x
        assert apart or one.y + one.height <= other.y or other.y + other.height <= one.y, (one, other)
    assert {box.title for box in drawn.boxes} >= {"a", "b", "c", "card"}
    last = max(drawn.boxes, key=lambda box: box.x)
    assert last.kind == "view"
    assert len(drawn.lines) == len(drawn.boxes) - 1, "a tree"
    for path in drawn.lines:
        start, *_, end = re.findall(r"-?[\d.]+ -?[\d.]+", path)
        assert float(start.split()[0]) < float(end.split()[0])
    assert all(box.y >= 0 and box.y + box.height <= drawn.height + 0.1 for box in drawn.boxes)
    [held] = [box for box in drawn.boxes if box.rows is not None]
    assert (held.title, held.rows, held.bytes) == ("a", 7, 4_096)


def test_a_stage_shows_what_it_holds() -> None:
    (definition,) = parse(VIEW)
    plan = plan_view(definition, CATALOG)
    stages = []
    left = [plan.root]
    while left:
        node = left.pop()
        left += node.inputs
        if " join" in describe(node):
            stages.append(Occupied("stage", describe(node), ("k",), 3, 10))
    drawn = draw(plan.root, "card", plan.key, stages)
    assert sum(box.rows == 3 for box in drawn.boxes) == len(stages) == 2


# SQL


@given(st.text(st.sampled_from("select from 'x' -- <b>\n/* */ 12.5 \"&"), max_size=60))
def test_marked_sql_is_the_same_text(sql: str) -> None:
    marked = str(highlighted(sql))
    assert unescape(re.sub(r'<span class="sql-\w+">|</span>', "", marked)) == sql
    assert not re.search(r"<(?!span class=\"sql-|/span>)", marked), "nothing else became markup"


def test_words_of_sql_are_told_apart() -> None:
    marked = str(highlighted("SELECT 'from' -- where\n, selected"))
    assert '<span class="sql-word">SELECT</span>' in marked
    assert '<span class="sql-text">&#39;from&#39;</span>' in marked
    assert '<span class="sql-comment">-- where</span>' in marked
    assert marked.endswith(", selected")


def test_what_was_written_differently() -> None:
    assert difference("a\nb\n-- c\n", "\na\nB\n++ c\n") == [
        ("same", "a"), ("removed", "b"), ("removed", "-- c"), ("added", "B"), ("added", "++ c"),
    ]  # fmt: skip
    assert difference("a", "a") == []


# Bars and points


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=80))
def test_bars_stay_inside(counts: list[int]) -> None:
    drawn = bars.bars([(str(count), count) for count in counts])
    assert drawn.top >= max(counts)
    assert all(0 <= bar.y <= drawn.height and 0 <= bar.height <= drawn.height for bar in drawn.bars)
    assert all(bar.height == 0 for bar, count in zip(drawn.bars, counts, strict=True) if count == 0)


def after(status: Status, seconds: float, changes: int) -> Status:
    views = replace(status.views, epochs=Epochs(count=1, changes=changes))
    return replace(status, at=status.at + timedelta(seconds=seconds), views=views)


def test_a_point_has_rates_against_the_look_before() -> None:
    first = after(status(), 0, 100)
    assert point(first, None)["changes_per_s"] is None
    assert point(after(first, 2, 150), first)["changes_per_s"] == 25.0
    assert point(after(first, 2, 0), first)["changes_per_s"] is None, "another maintainer counts anew"
    assert point(first, None)["records_per_s"] == 3.5


def test_a_point_tells_of_every_hop() -> None:
    sinks = (
        SinkLine("card", "cache", "riding", view_ms=200.0, sink_ms=30.0),
        SinkLine("card", "warehouse", "riding", view_ms=200.0, sink_ms=9_000.0),
        SinkLine("late", "search", "down", view_ms=5.0),
    )
    found = point(replace(status(), views=replace(status().views, sinks=sinks)), None)
    told = {name: found[f"{name}_ms"] for name in ("log", "view", "cache", "warehouse", "search")}
    assert told == {"log": 12.5, "view": 200.0, "cache": 230.0, "warehouse": 9_200.0, "search": None}


def test_what_is_plotted_is_in_every_point_and_nothing_in_it_for_nobody() -> None:
    plotted = {"at"}
    for template in ("overview", "source"):
        source = (resources.files("headwater.pages") / f"templates/console/{template}.html").read_text("utf-8")
        for lines in re.findall(r"data-plot='([^']+)'", source):
            plotted |= {line["key"] for line in json.loads(lines)}
    assert plotted == point(status(), None).keys()


def at_offsets(seconds: float, **offsets: int) -> Status:
    look, begun_at = status(), datetime(2026, 1, 2, tzinfo=UTC)
    sinks = tuple(SinkLine("card", name, "riding", next_offset=offset) for name, offset in offsets.items())
    return replace(look, at=begun_at + timedelta(seconds=seconds), views=replace(look.views, sinks=sinks))


def test_a_sink_has_a_rate_over_the_last_looks() -> None:
    looks = [at_offsets(0, cache=100, search=9), at_offsets(2, cache=150, search=3), at_offsets(4, cache=200, search=4)]
    trail = Trail(lambda: looks[0], threading.Event())
    trail.look()
    assert trail.rates() == {}
    while len(looks) > 1:
        looks.pop(0)
        trail.look()
    assert trail.rates() == {"cache": 25.0}, "what was written anew has none"
    (*_, (_, last)) = trail.since(0)
    assert (last["cache_per_s"], last["search_per_s"], last["alerts_per_s"]) == (25.0, None, None)
    facts = {stop.name: stop.facts for _, stop in picture(looks[0], trail.rates()).ends}
    assert "25 records/s" in facts["Cache"]
    assert not any("records/s" in fact for fact in facts["Search"])


def test_who_comes_back_gets_what_they_missed() -> None:
    looks = [after(status(), n, n) for n in range(5)]
    trail = Trail(lambda: looks[0], threading.Event())
    for _ in range(4):
        trail.look()
        trail.look()  # nothing new to see
        looks.pop(0)
    assert [number for number, _ in trail.since(0)] == [1, 2, 3, 4]
    assert [number for number, _ in trail.since(trail.seen(f"{trail.run}-3"))] == [4]
    for stranger in ("", "x", f"{trail.run}-", "other-3", f"{trail.run}-{'9' * 40}", f"{trail.run}-²"):
        assert trail.seen(stranger) == 0, stranger


def test_a_finding_whose_numbers_run_is_not_read_out_with_each_of_them() -> None:
    panel, health = (environment().get_template(f"panels/{name}.html") for name in ("findings", "health"))
    for behind in range(2):
        findings = Finding("fail", "connector", f"{behind} s behind", "headwater status"), Finding("warn", "slot", "x")
        look = status(*findings)
        made = panel.render(look=look)
        assert f"{behind} s behind" in made
        assert "role=" not in made
        assert "aria-live" not in made
        assert 'role="status" aria-live="polite"><span class="badge bad">1 thing fails' in health.render(look=look)
    still = environment().get_template("parts.html").module.notice  # type: ignore[attr-defined]
    assert 'role="alert"' in still("bad", "Refused.")
    assert 'role="status"' in still("ok", "Saved.")


# The story of a row


def test_a_story_is_told_with_its_causes_and_escaped() -> None:
    at, hostile = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "<script>"
    change = CausingChange(
        Position(7, 3), "public.a", "update", {"id": hostile}, (("name", hostile, None),), Role.DIRECT
    )
    cause = Cause(123, Lsn(16), at, Position(7, 1), Position(7, 4), (change,), changes_left_out=2)
    told = StoryVersion(
        5, Kind.CHANGED, Position(7, 4), "0/10", at, at + timedelta(milliseconds=40), b"{}", b"{}",
        (ColumnChange("name", '"old"', f'"{hostile}"'),), Causes((cause,), "a note"), follows=False,
    )  # fmt: skip
    gone = replace(told, version=6, kind=Kind.GONE, causes=Causes(()), published_at=None, committed_at=None)
    story = Story("card", '{"id":1}', (told, gone), 3, None, (hostile,))
    known = {"root": "../", "here": "/console/story", "session": Session("os:ann", "t"), "form_token": "t"}
    text = (
        environment()
        .get_template("console/story.html")
        .render(known, look=None, notice_left=None, view="card", key="1", views=["card"], story=story, problem=None)
    )
    for part in ("Transaction 123", "published 40 ms later", "and 2 more", "3 older versions", "a note", "gone now"):
        assert part in text, part
    assert "no longer kept" in text
    assert hostile not in text
    assert text.index("version 6") < text.index("version 5"), "the newest first"
