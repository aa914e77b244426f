"""Files of views: what is read of them, and what is refused before a table is looked at."""

from __future__ import annotations

import pickle

import pytest

from cdc.errors import ViewRefused
from tests.views.sql.tables import demo_catalog
from views.definition import parse
from views.sql import plan_view

FILE = """
-- The first; a comment.
CREATE MATERIALIZED VIEW Listing_Card
WITH (key = 'id, city', sinks = 'cache,search , warehouse') AS  -- as
SELECT id, city, title AS "Title" /* not the end; */ FROM listings;

create materialized view agents_by_city as
    select city, count(*) as n from agents group by city
"""


def test_every_view_of_a_file() -> None:
    card, agents = parse(FILE)
    assert (card.name, card.key, card.sinks) == ("listing_card", ("id", "city"), ("cache", "search", "warehouse"))
    assert card.sql == 'SELECT id, city, title AS "Title" /* not the end; */ FROM listings'
    assert (agents.name, agents.key, agents.sinks) == ("agents_by_city", None, ())
    assert agents.sql == "select city, count(*) as n from agents group by city"


@pytest.mark.parametrize("option", ["lookup", "cache_ttl_s", "text", "geo", "language", "partition_by"])
def test_every_option_is_read(option: str) -> None:
    [view] = parse(f"create materialized view v with (key = 'id', {option} = 'One, two') as select 1 as id")
    assert view.options == {"key": "id", option: "One, two"}


def test_refusals_point_into_the_file() -> None:
    text = FILE.replace("count(*)", "count(name), pryce")
    view = parse(text)[1]
    with pytest.raises(ViewRefused) as refused:
        plan_view(view, demo_catalog())
    assert (refused.value.line, refused.value.column) == (8, 31)
    assert "pryce as n" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT 1", "not-a-view"),
        ("CREATE VIEW v AS SELECT 1 AS x", "not-a-view"),
        ("CREATE MATERIALIZED VIEW a.v AS SELECT 1 AS x", "not-a-view"),
        ('CREATE MATERIALIZED VIEW "V" AS SELECT 1 AS x', "not-a-view"),
        ("CREATE MATERIALIZED VIEW v (x) AS SELECT 1", "unsupported"),
        ("CREATE MATERIALIZED VIEW v WITH (keys = 'id') AS SELECT 1 AS x", "option"),
        ("CREATE MATERIALIZED VIEW v WITH (sinks = 'cash') AS SELECT 1 AS x", "option"),
        ("CREATE MATERIALIZED VIEW v AS SELECT FROM WHERE", "syntax"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 'x", "syntax"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1 AS x; CREATE MATERIALIZED VIEW v AS SELECT 2 AS x", "not-a-view"),
    ],
)
def test_refused(text: str, reason: str) -> None:
    with pytest.raises(ViewRefused) as refused:
        parse(text)
    assert refused.value.reason == reason
    assert refused.value.hint


def test_a_refusal_and_a_plan_travel() -> None:
    """To Spark's workers and back."""
    with pytest.raises(ViewRefused) as refused:
        parse("SELECT 1")
    copy = pickle.loads(pickle.dumps(refused.value))
    assert (copy.reason, str(copy)) == (refused.value.reason, str(refused.value))
    plan = plan_view(parse(FILE)[0], demo_catalog())
    assert pickle.loads(pickle.dumps(plan)) == plan
