"""TPC-H's 22 queries as views: kept equal to their SQL while the data changes. Those that must be written another way
are known with the reason."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import psycopg
import pytest

from cdc.errors import ViewRefused
from tests.views.lab import Lab
from tests.views.sql.tables import catalog_of
from tests.views.tpch.data import Tpch
from views.definition import parse
from views.sql import plan_view

FOLDER = Path(__file__).parent / "tpch"
SCHEMA = (FOLDER / "schema.sql").read_text()
QUERIES = (FOLDER / "queries.sql").read_text()
REFUSED = {"q2": "no-key", "q17": "numeric-without-scale", "q19": "non-equi-join", "q20": "no-key"}
SEED, EPOCHS = 4, 22


def test_all_the_queries_are_there() -> None:
    assert [view.name for view in parse(QUERIES)] == [f"q{number}" for number in range(1, 23)]


def test_what_is_not_accepted_as_the_benchmark_writes_it() -> None:
    found = {}
    for view in parse((FOLDER / "refused.sql").read_text()):
        with pytest.raises(ViewRefused) as refusal:
            plan_view(view, catalog_of(SCHEMA))
        found[view.name] = refusal.value.reason
    assert found == REFUSED


@pytest.mark.stack
def test_views_equal_their_sql_while_the_data_changes(scratch: psycopg.Connection) -> None:
    told: set[str] = set()
    with Lab(scratch, SCHEMA, QUERIES, shards=2) as lab:
        data = Tpch(scratch, Random(SEED))
        data.load()
        lab.epoch()
        for number in range(EPOCHS):
            for _ in range(data.random.randint(1, 3)):
                data.transaction()
            if number % 5 == 0:
                lab.kept.restart()
            changed = lab.epoch()
            told |= {name for name, deltas in changed.items() if any(_says_something(d.after) for d in deltas)}
        lab.epoch(*(f"truncate {table}" for table in re.findall(r"create table (\w+)", SCHEMA)))
    assert told == lab.kept.plans.keys(), "every query found something, and its answer changed"


def _says_something(row: object) -> bool:
    return isinstance(row, dict) and any(value is not None for value in row.values())
