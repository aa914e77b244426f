"""The demo's catchers: what the deployment's own channels send to the visitor arrives, and nothing else is opened."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import httpx
import psycopg
import pytest

from alerts.channels.channel import Delivered, Refused, Target, TargetRefused
from alerts.store import create, endpoint_secrets
from headwater.channels import mail, webhook
from headwater.demo import catchers
from headwater.demo.catchers import listening
from headwater.demo.searches import VISITOR
from headwater.deployment import Deployment
from headwater.http.app import make_app
from headwater.http.server import PageServer
from headwater.migrate import migrate
from headwater.service.demo_catching import demo_catching
from headwater.settings import Settings
from headwater.stack.state import StackState
from headwater.targets import target_check
from tests.alerts.samples import SECRET, hook, notification
from tests.alerts.store.wishes import wish
from tests.conftest import fresh_database
from tests.waiting import eventually


def deployed(folder: Path, **given: object) -> Deployment:
    return Deployment.of(Settings.model_validate({"data_folder": str(folder), **given}), StackState())


async def shown(page: PageServer) -> list[str]:
    """What the API tells: another process."""
    transport = httpx.ASGITransport(make_app(page))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return list((await client.get("/demo/caught")).json()["caught"])


def test_webhooks_and_mail_to_the_visitor_arrive(tmp_path: Path) -> None:
    plain = deployed(tmp_path)
    with demo_catching(plain, wanted=True) as catching:
        assert catching.hooks is not None
        catching.hooks.secret = SECRET
        settings, targets = catching.deployment.settings, catching.targets

        async def send() -> None:
            hooks, [mails] = webhook(settings), mail(settings)
            assert await hooks.deliver(notification(), hook(targets["webhook"])) == Delivered()
            assert await mails.deliver(notification("msg_2"), Target("e", "email", targets["email"])) == Delivered()
            other = await hooks.deliver(notification(), hook("http://127.0.0.1:1/"))
            assert isinstance(other, Refused), "only the catcher's port is open"
            await hooks.close()
            await mails.close()

        asyncio.run(send())
        eventually(lambda: catching.count == 2)
        first, second = asyncio.run(shown(PageServer(plain)))
        assert first.endswith("webhook msg_1 genuine: listing_card entered")
        assert f"mail to {VISITOR}" in second
        said, *newest = catching.text.splitlines()
        assert (newest, targets["webhook"] in said, ": 2 (all: /demo/caught)" in said) == ([first, second], True, True)
        url = targets["webhook"]
    try:
        httpx.post(url, timeout=5)
        raise AssertionError("nobody listens after it")
    except httpx.ConnectError:
        pass


def test_a_mail_server_of_the_users_own_is_left_alone(tmp_path: Path) -> None:
    own = deployed(tmp_path, mail={"host": "smtp.example.com", "sender": "us@example.com"})
    with demo_catching(own, wanted=True) as catching:
        assert catching.deployment.settings.mail == own.settings.mail
        assert list(catching.targets) == ["webhook"]


def test_nothing_without_the_demo(tmp_path: Path) -> None:
    plain = deployed(tmp_path)
    with demo_catching(plain, wanted=False) as catching:
        assert (catching.deployment, catching.targets, catching.text) == (plain, {}, "")
        assert listening(tmp_path) is None
    assert asyncio.run(shown(PageServer(plain))) == []


NOWHERE = {
    "postgres": {"url": "postgresql://me@127.0.0.1:1/demo", "capture_user": "capture"},
    "kafka": {"bootstrap": "127.0.0.1:1"},
    "connect": {"url": "http://127.0.0.1:1"},
    "elasticsearch": {"url": "http://127.0.0.1:1"},
    "redis": {"url": "redis://127.0.0.1:1/0"},
}
"""No server is embedded: a deployment is resolved without a stack."""


def test_every_process_of_the_demo_knows_its_catchers(tmp_path: Path) -> None:
    """What a search may be told by is the same to who saves it, who tests it and who delivers."""
    given = {"data_folder": str(tmp_path), **NOWHERE}

    def elsewhere() -> Settings:
        """As the API and the verbs have them."""
        return Deployment.resolve(Settings.model_validate(given)).settings

    def check(channel: str, target: str) -> None:
        target_check(elsewhere())(wish(channel=channel, target=target))

    plain = elsewhere()
    with demo_catching(Deployment.of(plain, StackState()), wanted=True) as catching:
        settings, url = catching.deployment.settings, catching.targets["webhook"]
        assert elsewhere() == settings != plain
        check("webhook", url)
        check("email", "newcomer@example.org")
        with pytest.raises(TargetRefused):
            check("webhook", "http://127.0.0.1:1/")
    assert elsewhere() == plain, "it ends with the demo"
    with pytest.raises(TargetRefused):
        check("webhook", url)
    with demo_catching(Deployment.of(plain, StackState()), wanted=True) as catching:
        assert catching.targets["webhook"] == url, "where it was: what somebody saved leads there still"


def test_what_a_killed_demo_left_opens_nothing(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from headwater.demo.catchers import *\n"
        "with announced(Path(sys.argv[1]), Catchers(1, 2)): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert (tmp_path / catchers.NAME).exists()
    assert listening(tmp_path) is None
    (tmp_path / catchers.NAME).write_text("{")
    assert (listening(tmp_path), catchers.ports(tmp_path)) == (None, (0, 0))


@pytest.mark.stack
def test_whoever_is_told_there_has_signed_it(deployment: Deployment, unique: str, tmp_path: Path) -> None:
    """A newcomer's search has a secret of its own: what it sends is as genuine as the demo's."""
    for address in fresh_database(deployment.postgres, unique):
        migrate(address)
        mine = replace(deployment, postgres=address, settings=Settings(data_folder=tmp_path))
        with demo_catching(mine, wanted=True) as catching, psycopg.connect(address.conninfo(), autocommit=True) as conn:
            url = catching.targets["webhook"]
            made = create(conn, "newcomer", wish(channel="webhook", target=url))
            secrets = endpoint_secrets(conn, "newcomer", "webhook", url)

            async def send(
                url: str = url, secrets: tuple[str, ...] = secrets, settings=catching.deployment.settings
            ) -> None:
                hooks = webhook(settings)
                assert await hooks.deliver(notification(), hook(url, secrets=secrets)) == Delivered()
                await hooks.close()

            asyncio.run(send())
            [line] = eventually(lambda: list(catching.lines))
            assert "msg_1 genuine" in line
            assert made.owner == "newcomer"
