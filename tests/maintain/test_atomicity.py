"""A reader of the views' topics sees whole transactions: money that moves is never in two places, nor in none."""

from __future__ import annotations

import json
import random

import pytest

from tests.maintain.rig import Rig, limits

pytestmark = [pytest.mark.stack, pytest.mark.spark]

ACCOUNTS, EACH = 12, 100


@pytest.fixture(scope="module")
def ddl() -> str:
    return f"""
        create table accounts (id integer primary key, balance integer);
        insert into accounts select n, {EACH} from generate_series(1, {ACCOUNTS}) n;
    """


def sums(rig: Rig, view: str, column: str) -> list[int]:
    """The sum over the view after each position of its topic."""
    held: dict[bytes, int] = {}
    found: list[int] = []
    at = ""
    for key, told in rig.told(view):
        if told is None:
            continue
        if told.position != at and at:
            found.append(sum(held.values()))
        at = told.position
        after = json.loads(bytes(told.after))
        held.pop(key, None)
        if after is not None:
            held[key] = after[column]
    return [*found, sum(held.values())]


def test_the_sum_is_constant_at_every_position(rig: Rig) -> None:
    rig.want(
        "create materialized view per_account as select id, balance from accounts;"
        "create materialized view per_kind as "
        "select id % 3 as kind, sum(balance) as total from accounts group by id % 3;"
        "create materialized view total as select sum(balance) as total from accounts"
    )
    draw = random.Random(11)
    with rig.kept(limits(shards=2)):
        rig.settled(timeout_s=120)
        for _ in range(8):
            for _ in range(draw.choice([1, 5, 40])):
                one, other = draw.sample(range(1, ACCOUNTS + 1), 2)
                amount = draw.randint(1, 50)
                with rig.connection.transaction():
                    rig.connection.execute("update accounts set balance = balance - %s where id = %s", [amount, one])
                    rig.connection.execute("update accounts set balance = balance + %s where id = %s", [amount, other])
            rig.reached("total")
        rig.settled()
    seen = sums(rig, "per_account", "balance")
    assert set(seen) == {ACCOUNTS * EACH}
    assert len(seen) >= 8
    assert set(sums(rig, "per_kind", "total")) == {ACCOUNTS * EACH}
    assert sums(rig, "total", "total") == [ACCOUNTS * EACH], "a total that does not change is told once"
