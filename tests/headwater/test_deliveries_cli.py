"""`headwater deliveries` as people call it, in a real database."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import psycopg
import pytest

from alerts.clock import system_clock
from alerts.delivery.postgres_store import PostgresStore
from alerts.delivery.store import Claim, Delivery
from alerts.delivery.verdict import Dead, Disabled, Sent
from alerts.notification_json import stored
from alerts.posting import due
from alerts.store import create, everybodys
from alerts.suppressions import suppress
from cdc.addresses import PostgresAddress
from headwater import cli
from headwater.deployment import Deployment
from headwater.migrate import migrate
from tests.alerts.samples import notification
from tests.alerts.store.wishes import wish

pytestmark = pytest.mark.stack
Run = Callable[..., tuple[int, str]]
NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def run(
    deployment: Deployment,
    postgres: PostgresAddress,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    migrate(postgres)
    mine = replace(deployment, postgres=postgres)
    monkeypatch.setattr(Deployment, "resolve", lambda _settings: mine)
    capsys.readouterr()

    def run(*arguments: str) -> tuple[int, str]:
        code = cli.run(list(arguments))
        told = capsys.readouterr()
        return code, told.out + told.err

    return run


def add(postgres: PostgresAddress, number: int, target: str) -> str:
    told = notification(f"msg_{number}", number, owner="ada")
    with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
        search = next((each.id for each in everybodys(conn, 1)), None) or create(conn, "ada", wish()).id
        conn.execute(
            "insert into headwater.notifications (id, owner, sequence, channel, target, subscription_ids,"
            " first_sequence, last_sequence, events, body, unsubscribe_token)"
            " values (%s, 'ada', %s, 'webhook', %s, %s, 1, 1, 1, %s, %s)",
            [told.id, number, target, [search], stored(told).decode(), told.id],
        )
        return str(due(conn, told.id, "ada", "webhook", target, system_clock()))


def test_what_is_dead_is_shown_and_tried_again(run: Run, postgres: PostgresAddress) -> None:
    sent, dead, disabled = (add(postgres, n, f"https://example.com/{n % 2}") for n in (1, 2, 3))
    assert asyncio.run(settled(postgres, {sent: Sent(), dead: Dead("refused: 400"), disabled: Disabled("410")})) == 3

    code, out = run("deliveries", "list", "--json")
    found = {str(each["id"]): each for each in json.loads(out)["deliveries"]}
    assert {id_: each["state"] for id_, each in found.items()} == {sent: "delivered", dead: "dead", disabled: "dead"}
    assert found[dead]["last_error"] == "refused: 400"
    assert found[disabled]["disabled_reason"] == "410"

    code, out = run("deliveries", "list", "--state", "dead")
    assert code == 0
    assert "refused: 400" in out
    assert "delivered" not in out
    code, out = run("deliveries", "list", "--state", "ded")
    assert (code, "dead" in out) == (2, True)

    assert run("deliveries", "replay")[0] == 2
    assert run("deliveries", "replay", sent)[0] == 2
    assert json.loads(run("deliveries", "replay", disabled, "--json")[1]) == {
        "replayed": [int(disabled)],
        "unwanted": {},
    }
    assert asyncio.run(settled(postgres, {disabled: Sent()})) == 1  # its endpoint is on again
    assert json.loads(run("deliveries", "replay", "--all", "--json")[1]) == {"replayed": [int(dead)], "unwanted": {}}


def test_what_nobody_wants_any_more_is_not_tried_again(run: Run, postgres: PostgresAddress) -> None:
    ended, closed = add(postgres, 1, "https://example.com/1"), add(postgres, 2, "https://example.com/2")
    assert asyncio.run(settled(postgres, {ended: Dead("refused: 400"), closed: Dead("refused: 400")})) == 2
    with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
        suppress(conn, "webhook", "https://example.com/2", "unsubscribed")
        assert json.loads(run("deliveries", "replay", closed, "--json")[1]) == {
            "replayed": [], "unwanted": {closed: "nothing is sent to https://example.com/2 any more"},
        }  # fmt: skip
        conn.execute("update headwater.subscriptions set paused = true")
    code, out = run("deliveries", "replay", "--all")
    assert code == 0
    assert "0 are tried again" in out
    assert f"not {ended}: its searches have ended" in out
    assert asyncio.run(claimed(postgres)) == []


def test_a_test_message_goes_where_news_would_go_and_nowhere_else(run: Run, postgres: PostgresAddress) -> None:
    with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
        paused = create(conn, "ada", wish(paused=True)).id
        there = create(conn, "ada", wish(channel="webhook", target="https://example.com/hook")).id
        suppress(conn, "webhook", "https://example.com/hook", "unsubscribed")
    code, out = run("alerts", "test", str(paused))
    assert (code != 0, "it is paused" in out, f"headwater alerts resume {paused}" in out) == (True, True, True)
    code, out = run("alerts", "test", str(there))
    assert (code != 0, "headwater suppressions lift webhook https://example.com/hook" in out) == (True, True)
    assert asyncio.run(claimed(postgres)) == []


def test_a_test_message_goes_the_way_of_the_news(run: Run, postgres: PostgresAddress) -> None:
    with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
        search = create(conn, "ada", wish(channel="webhook", target="https://example.com/hook"))
    code, out = run("alerts", "test", str(search.id), "--json")
    assert code == 0, out
    delivery = str(json.loads(out)["delivery"])
    [told] = asyncio.run(claimed(postgres))
    assert (told.id, told.target.address, told.notification.owner) == (delivery, "https://example.com/hook", "ada")
    assert told.target.secrets
    assert "test" in told.notification.items[0].searches[0].reason
    # A link that leads somewhere, also out of a mail: where the news' links lead.
    assert told.notification.unsubscribe_url.startswith("http://127.0.0.1:8321/v1/alerts/unsubscribe/")
    assert run("alerts", "test", "999")[0] != 0


async def claimed(postgres: PostgresAddress) -> Sequence[Delivery]:
    store = PostgresStore(postgres)
    try:
        return await store.claim(Claim(NOW, NOW, 100, 100))
    finally:
        await store.close()


async def settled(postgres: PostgresAddress, verdicts: dict[str, Sent | Dead | Disabled]) -> int:
    """How many were claimed and settled."""
    store = PostgresStore(postgres)
    try:
        claimed = await store.claim(Claim(NOW, NOW, 100, 100))
        for delivery in claimed:
            await store.settle(delivery.id, verdicts[delivery.id], NOW)
        return len(claimed)
    finally:
        await store.close()


def test_a_suppressed_address_is_lifted(run: Run, postgres: PostgresAddress) -> None:
    waiting = add(postgres, 1, "https://example.com/1")
    assert run("suppressions", "add", "webhook", "https://example.com/1", "--reason", "gone")[0] == 0
    assert asyncio.run(claimed(postgres)) == [], f"what waits there is withdrawn: {waiting}"
    assert run("suppressions", "lift", "webhook", "https://example.com/1")[0] == 0
    assert run("suppressions", "add", "email", "Ada@example.com", "--detail", "550 no such user")[0] == 0
    for wrong in (["feed", "x"], ["email", " "], ["email", "ada@example.com", "--reason", "whim"]):
        assert run("suppressions", "add", *wrong)[0] != 0
    found = json.loads(run("suppressions", "list", "--json")[1])["suppressions"]
    assert [(each["target"], each["reason"], each["detail"]) for each in found] == [
        ("ada@example.com", "bounced", "550 no such user")
    ]
    assert run("suppressions", "lift", "email", "ada@example.com")[0] == 0
    code, out = run("suppressions", "lift", "email", "ada@example.com")
    assert (code != 0, "not suppressed" in out) == (True, True)
