"""Whoever was told something before histories were noted goes on beyond it: it may have been put back since."""

from __future__ import annotations

import time

import psycopg
import pytest

from cdc.addresses import PostgresAddress
from headwater.migrate import migrate

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("is_used", [True, False])
def test_numbers_go_on_beyond_all_that_were_given(postgres: PostgresAddress, is_used: bool) -> None:
    before_us = time.time_ns() // 1000 - 60_000_000
    migrate(postgres, "0012")
    with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
        if is_used:
            conn.execute("insert into headwater.owners (owner, last_sequence, last_notification) values ('a', 7, 3)")
        migrate(postgres)
        [(history, first)] = conn.execute("select history, first from headwater.numbering").fetchall()
        assert history
        assert (first > before_us) is is_used, "a new database begins at one"
        for numbers in conn.execute("select last_sequence, last_notification from headwater.owners"):
            assert numbers == (first, first)
