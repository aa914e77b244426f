"""Quiet stretches that several people began: who ends one ends no other."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from alerts import quiet
from cdc.errors import ConfigurationError

DOCS = Path(__file__).parents[3] / "docs" / "alerts.md"


def is_open(conn: psycopg.Connection) -> list[int]:
    return [each.id for each in reversed(quiet.listed(conn)) if each.ended_at is None]


def test_of_several_stretches_only_the_one_that_is_named_ends(conn: psycopg.Connection) -> None:
    first, second = (quiet.begin(conn, "listing", reason).id for reason in ("nightly import", "clean-up"))
    every = quiet.begin(conn).id
    with pytest.raises(ConfigurationError, match="2 quiet stretches of listing are open") as refused:
        quiet.end(conn, "listing")
    told = refused.value.detail.splitlines()
    assert [line.split(",")[0] for line in told] == [str(first), str(second)]
    assert told[0].endswith("Z: nightly import")
    assert refused.value.hint == "headwater quiet end ID"
    assert is_open(conn) == [first, second, every]
    with pytest.raises(ConfigurationError, match=f"no quiet stretch {second} is open"):
        quiet.end(conn, "card", second)
    assert quiet.end(conn, "listing", second).id == second
    assert quiet.end(conn, "listing").id == first, "it is the only one left of that view"
    assert quiet.end(conn, None, every).id == every
    for view, id_ in (("listing", None), (None, None), (None, first)):
        with pytest.raises(ConfigurationError):
            quiet.end(conn, view, id_)


def test_a_load_that_says_it_by_itself_ends_its_own_stretch(conn: psycopg.Connection) -> None:
    page = DOCS.read_text().splitlines()
    first = next(n for n, line in enumerate(page) if line.strip() == "begin;")
    end = next(n for n, line in enumerate(page) if n > first and line.strip() == "commit;")
    other = quiet.begin(conn, "listing", "somebody else's").id
    conn.execute("\n".join(line for line in page[first : end + 1] if line.strip() != "…"))
    assert len(quiet.listed(conn)) == 2
    assert is_open(conn) == [other]
