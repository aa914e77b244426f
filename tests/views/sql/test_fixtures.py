"""Every fixture has the plan, or the refusal, that its comment says; plans give Postgres' rows over the demo's."""

from __future__ import annotations

import duckdb
import psycopg
import pytest

from tests.views.sql.fixture_files import Case, cases, outcome
from tests.views.sql.oracle import check_same
from tests.views.sql.tables import demo_catalog

ACCEPTED = [case for case in cases() if case.file != "refused"]


@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_plan(case: Case) -> None:
    assert outcome(case.view) == case.expected


@pytest.mark.stack
@pytest.mark.parametrize("case", ACCEPTED, ids=str)
def test_rows_of_postgres(case: Case, market: psycopg.Connection, duck: duckdb.DuckDBPyConnection) -> None:
    tables = [name.name for name in demo_catalog().by_name]
    check_same(market, duck, case.view.sql, tables)
