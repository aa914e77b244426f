"""The demo's catchers: what the deployment's own channels send to the visitor arrives, and nothing else is opened."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from alerts.channels.channel import Delivered, Refused, Target
from headwater.channels import mail, webhook
from headwater.demo.searches import VISITOR
from headwater.deployment import Deployment
from headwater.http.app import make_app
from headwater.http.server import PageServer
from headwater.service.demo_catching import demo_catching
from headwater.settings import Settings
from headwater.stack.state import StackState
from tests.alerts.samples import SECRET, hook, notification
from tests.waiting import eventually


def deployed(folder: Path, **given: object) -> Deployment:
    return Deployment.of(Settings.model_validate({"data_folder": str(folder), **given}), StackState())


async def shown(page: PageServer) -> list[str]:
    transport = httpx.ASGITransport(make_app(page))
    async with httpx.AsyncClient(transport=transport, base_url="http://page") as client:
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
        assert catching.text.splitlines() == ["caught: 2 (all: /demo/caught)", first, second]
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
    assert asyncio.run(shown(PageServer(plain))) == []
