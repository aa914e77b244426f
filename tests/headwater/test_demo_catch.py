"""`headwater demo catch`: what a newcomer sees arrive, sent by the channels themselves."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

from alerts.channels.channel import Delivered, Target
from alerts.channels.mail import Mail
from alerts.channels.mail_message import Sender
from alerts.channels.mail_server import MailServer
from alerts.channels.public_addresses import AddressPolicy, Opening
from alerts.channels.signature import new_secret
from alerts.channels.webhook import Webhook
from headwater.cli.demo_catch import catch
from tests.alerts.samples import SECRET, hook, notification, until


def free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]


def is_open(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def test_a_line_for_everything_that_arrives() -> None:
    hooks, mails = free_ports()

    async def run() -> list[str]:
        told: list[str] = []
        catching = asyncio.create_task(catch(SECRET, hooks, mails, told.append))
        async with asyncio.timeout(10):
            while not (await asyncio.to_thread(is_open, hooks) and await asyncio.to_thread(is_open, mails)):
                await asyncio.sleep(0.01)
        channel = Webhook(AddressPolicy(openings=(Opening.parse(f"127.0.0.1:{hooks}"),)))
        url = f"http://127.0.0.1:{hooks}/"
        assert await channel.deliver(notification(), hook(url)) == Delivered()
        assert await channel.deliver(notification("msg_2"), hook(url, secrets=(new_secret(),))) == Delivered()
        mail = Mail(MailServer("127.0.0.1", mails, "none"), Sender("us@headwater.example"))
        assert await mail.deliver(notification(), Target("e", "email", "ada@example.org")) == Delivered()
        await until(lambda: len(told) == 3)
        catching.cancel()
        await asyncio.gather(catching, return_exceptions=True)
        return told

    first, second, third = asyncio.run(run())
    assert first.endswith("webhook msg_1 genuine: listing_card entered")
    assert "msg_2 NOT genuine" in second
    assert third.endswith("mail to ada@example.org: Under half a million: Garden flat 7: new")
