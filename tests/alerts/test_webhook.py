"""Webhooks over real sockets on loopback: every answer and every way to fail. Nothing else is ever contacted: names are
resolved by the tests, and the policy opens one port of loopback."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from alerts.channels.channel import Delivered, Gone, Outcome, Refused, Retry, TargetRefused
from alerts.channels.public_addresses import Address, AddressPolicy, Opening
from alerts.channels.signature import new_secret
from alerts.channels.webhook import Webhook, WebhookLimits, checked_url
from headwater.demo.webhook_catcher import Answer, CaughtWebhook, WebhookCatcher, accept
from tests.alerts.samples import SECRET, hook, item, notification, until

TLS = Path(__file__).parent / "tls"
QUICK = WebhookLimits(connect_s=2.0, request_s=0.3, drain_s=0.2)
PATIENT = WebhookLimits(request_s=30.0, drain_s=0.2)


def says(answer: bytes) -> Answer:
    async def write(_caught: CaughtWebhook, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    return write


async def hang(_caught: CaughtWebhook, _writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def reset(_caught: CaughtWebhook, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


def drip(head: bytes, drop: bytes) -> Answer:
    async def write(_caught: CaughtWebhook, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(0.01)

    return write


def to_loopback(port: int) -> AddressPolicy:
    return AddressPolicy(openings=(Opening.parse(f"127.0.0.1:{port}"),))


def sent(answer: Answer, limits: WebhookLimits = PATIENT) -> tuple[Outcome, WebhookCatcher]:
    async def send() -> tuple[Outcome, WebhookCatcher]:
        async with WebhookCatcher(SECRET, answer) as catcher:
            channel = Webhook(to_loopback(catcher.port), limits)
            outcome = await channel.deliver(notification(), hook(catcher.url))
            await channel.close()
            return outcome, catcher

    return asyncio.run(send())


def named(*addresses: str) -> Callable[[str, int], Awaitable[Sequence[Address]]]:
    async def resolve(_host: str, _port: int) -> Sequence[Address]:
        return [ip_address(address) for address in addresses]

    return resolve


class TestDelivered:
    @pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
    def test_two_hundreds(self, status: int) -> None:
        outcome, catcher = sent(says(b"HTTP/1.1 %d Yes\r\nContent-Length: 0\r\n\r\n" % status))
        assert outcome == Delivered()
        assert [caught.genuine for caught in catcher.caught] == [True]

    def test_what_is_sent(self) -> None:
        _, catcher = sent(accept)
        caught = catcher.caught[0]
        assert caught.path == "/hook"
        assert caught.headers["content-type"] == "application/json"
        assert caught.headers["host"] == f"127.0.0.1:{catcher.port}"
        assert caught.id == "msg_1"
        told = json.loads(caught.body)
        assert (told["type"], told["timestamp"]) == ("search.matched", "2026-03-01T12:00:00Z")
        assert told["data"]["items"][0]["after"]["price"] == 450_000
        assert b"unsubscribe" not in caught.body

    def test_both_secrets_sign_during_a_rotation(self) -> None:
        async def send() -> WebhookCatcher:
            async with WebhookCatcher(SECRET) as catcher:
                target = hook(catcher.url, secrets=(new_secret(), SECRET))
                await Webhook(to_loopback(catcher.port)).deliver(notification(), target)
                return catcher

        assert [caught.genuine for caught in asyncio.run(send()).caught] == [True]

    def test_a_status_counts_though_its_body_never_ends(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        outcome, _ = sent(drip(head, b"1\r\nx\r\n"))
        assert outcome == Delivered()

    def test_a_huge_answer_is_not_read(self) -> None:
        written: list[int] = []

        async def pour(_caught: CaughtWebhook, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
            for _ in range(15_000):
                writer.write(b"x" * 65_536)
                written.append(65_536)
                await writer.drain()

        outcome, _ = sent(pour, WebhookLimits(request_s=30.0, drain_s=30.0))
        assert outcome == Delivered()
        assert sum(written) < 100_000_000, "the connection is closed instead"

    def test_a_connection_is_used_again(self) -> None:
        async def send() -> WebhookCatcher:
            async with WebhookCatcher(SECRET) as catcher:
                channel = Webhook(to_loopback(catcher.port))
                for number in range(3):
                    assert await channel.deliver(notification(f"msg_{number}"), hook(catcher.url)) == Delivered()
                await channel.close()
                return catcher

        catcher = asyncio.run(send())
        assert (len(catcher.caught), catcher.connections) == (3, 1)

    def test_a_kept_connection_that_was_closed_meanwhile(self) -> None:
        """However it is noticed: by the end of the stream, or only when the request is written."""

        async def close_after(caught: CaughtWebhook, writer: asyncio.StreamWriter) -> None:
            await accept(caught, writer)
            if len(catcher.caught) < 3:
                await writer.drain()
                writer.transport.abort()

        async def send() -> None:
            channel = Webhook(to_loopback(catcher.port))
            for number in range(4):
                assert await channel.deliver(notification(f"msg_{number}"), hook(catcher.url)) == Delivered()
            await channel.close()

        async def run() -> None:
            async with catcher:
                await send()

        catcher = WebhookCatcher(SECRET, close_after)
        asyncio.run(run())
        assert (len(catcher.caught), catcher.connections) == (4, 3)

    def test_a_kept_connection_that_dies_under_the_request(self) -> None:
        async def die_at_the_second(caught: CaughtWebhook, writer: asyncio.StreamWriter) -> None:
            if len(catcher.caught) == 2:
                writer.transport.abort()
            else:
                await accept(caught, writer)

        async def send() -> list[Outcome]:
            async with catcher:
                channel = Webhook(to_loopback(catcher.port))
                return [await channel.deliver(notification(), hook(catcher.url)) for _ in range(2)]

        catcher = WebhookCatcher(SECRET, die_at_the_second)
        assert asyncio.run(send()) == [Delivered(), Delivered()]
        assert [caught.id for caught in catcher.caught] == ["msg_1"] * 3, "again, with the same id"

    def test_a_kept_connection_on_which_a_408_was_left(self) -> None:
        """Some servers say so to who was silent, and close: that is no answer to what is asked next."""
        late = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        left = asyncio.Event()

        async def leave_it(caught: CaughtWebhook, writer: asyncio.StreamWriter) -> None:
            await accept(caught, writer)
            if len(catcher.caught) == 1:
                await writer.drain()
                await left.wait()
                writer.write(late)
                writer.close()

        async def send() -> list[Outcome]:
            async with catcher:
                channel = Webhook(to_loopback(catcher.port))
                first = await channel.deliver(notification(), hook(catcher.url))
                [[kept]] = channel._connections.idle.values()
                left.set()
                await until(lambda: b"408" in kept.reader._buffer)  # type: ignore[attr-defined]
                outcomes = [first, await channel.deliver(notification("msg_2"), hook(catcher.url))]
                await channel.close()
                return outcomes

        catcher = WebhookCatcher(SECRET, leave_it)
        assert asyncio.run(send()) == [Delivered(), Delivered()]
        assert ([caught.id for caught in catcher.caught], catcher.connections) == (["msg_1", "msg_2"], 2)

    def test_a_408_is_asked_about_once(self) -> None:
        async def refuse_later(caught: CaughtWebhook, writer: asyncio.StreamWriter) -> None:
            slow = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"
            await (accept if len(catcher.caught) == 1 else says(slow))(caught, writer)

        async def send() -> list[Outcome]:
            async with catcher:
                channel = Webhook(to_loopback(catcher.port))
                outcomes = [await channel.deliver(notification(), hook(catcher.url)) for _ in range(2)]
                await channel.close()
                return outcomes

        catcher = WebhookCatcher(SECRET, refuse_later)
        assert asyncio.run(send()) == [Delivered(), Retry("the endpoint answered 408")]
        assert (len(catcher.caught), catcher.connections) == (3, 2)

    def test_kept_connections_are_few_and_young(self) -> None:
        async def send() -> None:
            now_s = [0.0]
            async with AsyncExitStack() as open_:
                catchers = [await open_.enter_async_context(WebhookCatcher(SECRET)) for _ in range(5)]
                policy = AddressPolicy(openings=(Opening.parse("127.0.0.1:*"),))
                channel = Webhook(policy, replace(PATIENT, idle_connections_max=3, idle_s=15.0))
                channel._connections.now_s = lambda: now_s[0]
                for catcher in catchers:
                    await channel.deliver(notification(), hook(catcher.url))
                assert channel._connections.count == 3
                now_s[0] = 15.0
                await channel.deliver(notification(), hook(catchers[4].url))
                assert catchers[4].connections == 2
                await channel.close()
                assert channel._connections.count == 0

        asyncio.run(send())


class TestNotDelivered:
    @pytest.mark.parametrize("status", [300, 304, 400, 401, 404, 408, 413, 429, 500, 502, 503, 504, 599])
    def test_is_tried_again(self, status: int) -> None:
        outcome, _ = sent(says(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % status))
        assert outcome == Retry(f"the endpoint answered {status}")

    def test_gone(self) -> None:
        outcome, _ = sent(says(b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"))
        assert isinstance(outcome, Gone)

    @pytest.mark.parametrize(
        ("said", "after_s"),
        [(b"120", 120.0), (b"Sun, 01 Mar 2026 12:01:30 GMT", 90.0), (b"tomorrow", None), (b"9999999", 86_400.0)],
    )
    def test_retry_after(self, said: bytes, after_s: float | None) -> None:
        async def send() -> Outcome:
            answer = says(b"HTTP/1.1 503 No\r\nretry-AFTER: %b\r\nContent-Length: 0\r\n\r\n" % said)
            async with WebhookCatcher(SECRET, answer) as catcher:
                channel = Webhook(to_loopback(catcher.port), clock=lambda: notification().created_at)
                return await channel.deliver(notification(), hook(catcher.url))

        assert asyncio.run(send()) == Retry("the endpoint answered 503", after_s)

    def test_a_redirect_is_not_followed(self) -> None:
        async def send() -> tuple[Outcome, int]:
            async with WebhookCatcher() as inside:
                there = f"http://127.0.0.1:{inside.port}/".encode()
                answer = says(b"HTTP/1.1 302 Found\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % there)
                async with WebhookCatcher(SECRET, answer) as catcher:
                    policy = AddressPolicy(openings=(Opening.parse("127.0.0.1:*"),))
                    return await Webhook(policy).deliver(notification(), hook(catcher.url)), inside.connections

        assert asyncio.run(send()) == (Retry("the endpoint answered 302"), 0)

    def test_a_hang_ends_at_the_deadline(self) -> None:
        assert sent(hang, QUICK)[0] == Retry("no answer within 0.3 s")

    def test_a_slow_drip_of_headers_ends_at_the_deadline(self) -> None:
        outcome, _ = sent(drip(b"HTTP/1.1 200 OK\r\n", b"x-y: z\r\n"), QUICK)
        assert outcome == Retry("no answer within 0.3 s")

    @pytest.mark.parametrize(
        "answer",
        [
            reset,
            says(b"nonsense\r\n\r\n"),
            says(b"HTTP/1.1 200 OK\r\n" + b"x-y: zzzzzzzzzz\r\n" * 50_000 + b"\r\n"),
            says(b"\x00" * 200_000),
        ],
        ids=["reset", "nonsense", "huge headers", "bytes"],
    )
    def test_no_answer_that_can_be_read(self, answer: Answer) -> None:
        outcome, _ = sent(answer)
        assert isinstance(outcome, Retry)
        assert outcome.reason.startswith("the request failed")

    def test_nobody_listens(self) -> None:
        async def send() -> Outcome:
            async with WebhookCatcher() as catcher:
                pass
            return await Webhook(to_loopback(catcher.port)).deliver(notification(), hook(catcher.url))

        assert asyncio.run(send()) == Retry("the request failed: ConnectionError")

    def test_too_much_to_say(self) -> None:
        many = notification("msg_1", 1, *(item(number) for number in range(100)))
        channel = Webhook(to_loopback(9), replace(PATIENT, payload_bytes_max=1_000))
        outcome = asyncio.run(channel.deliver(many, hook("http://127.0.0.1:9/")))
        assert isinstance(outcome, Refused)

    def test_cancelled_attempts_leave_no_connection(self) -> None:
        async def send() -> None:
            async with WebhookCatcher(SECRET, hang) as catcher:
                channel = Webhook(to_loopback(catcher.port))
                attempt = asyncio.create_task(channel.deliver(notification(), hook(catcher.url)))
                await until(lambda: len(catcher.caught) == 1)
                attempt.cancel()
                await asyncio.gather(attempt, return_exceptions=True)
                assert channel._connections.count == 0
                catcher.answer = accept
                assert await channel.deliver(notification(), hook(catcher.url)) == Delivered()

        asyncio.run(send())


class TestForgery:
    """A URL is an owner's wish; the machine that follows it stands inside."""

    @pytest.mark.parametrize(
        "addresses",
        [
            ("127.0.0.1",),
            ("10.0.0.1",),
            ("169.254.169.254",),
            ("::1",),
            ("64:ff9b::7f00:1",),
            ("1.1.1.1", "10.0.0.1"),
            (),
        ],
        ids=str,
    )
    def test_a_name_of_an_inside_address(self, addresses: tuple[str, ...]) -> None:
        channel = Webhook(resolve=named(*addresses))
        outcome = asyncio.run(channel.deliver(notification(), hook("https://hooks.example/")))
        assert outcome == Refused("the host's address is not one that webhooks may reach")

    @pytest.mark.parametrize(
        "host",
        ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "2130706433", "0x7f.1", "0177.0.0.1", "0"],
    )
    def test_an_inside_address_however_it_is_written(self, host: str) -> None:
        outcome = asyncio.run(Webhook().deliver(notification(), hook(f"https://{host}/")))
        assert isinstance(outcome, Refused), "resolved by the system itself: these need no name server"

    def test_a_name_is_resolved_once(self) -> None:
        """The second answer is another one: rebinding. It is never asked for."""

        async def send() -> tuple[Outcome, int, list[str]]:
            asked: list[str] = []
            async with WebhookCatcher(SECRET) as good, WebhookCatcher() as inside:

                async def rebinding(host: str, _port: int) -> Sequence[Address]:
                    asked.append(host)
                    return [ip_address("127.0.0.1" if len(asked) == 1 else "10.0.0.1")]

                context = ssl.create_default_context(cafile=str(TLS / "certificate.pem"))
                channel = Webhook(to_loopback(good.port), PATIENT, resolve=rebinding, tls=context)
                outcome = await channel.deliver(notification(), hook(f"https://hooks.example:{good.port}/"))
                return outcome, inside.connections, asked

        outcome, inside, asked = asyncio.run(send())
        assert isinstance(outcome, Retry), "the catcher speaks no TLS"
        assert (inside, asked) == (0, ["hooks.example"])

    def test_a_name_that_means_another_address_the_next_time(self) -> None:
        async def send() -> tuple[list[Outcome], int]:
            answers = [["127.0.0.1"], ["127.0.0.2"]]
            async with WebhookCatcher(SECRET) as catcher:

                async def rebinding(_host: str, _port: int) -> Sequence[Address]:
                    return [ip_address(address) for address in answers.pop(0)]

                channel = Webhook(to_loopback(catcher.port), resolve=rebinding)
                target = hook(f"https://hooks.example:{catcher.port}/")
                return [await channel.deliver(notification(), target) for _ in range(2)], catcher.connections

        (first, second), connections = asyncio.run(send())
        assert isinstance(first, Retry)
        assert isinstance(second, Refused)
        assert connections == 1

    def test_a_name_that_nobody_knows(self) -> None:
        async def unknown(_host: str, _port: int) -> Sequence[Address]:
            raise OSError("no such name")

        outcome = asyncio.run(Webhook(resolve=unknown).deliver(notification(), hook("https://hooks.example/")))
        assert outcome == Retry("the request failed: OSError")

    def test_a_name_server_that_hangs(self) -> None:
        async def never(_host: str, _port: int) -> Sequence[Address]:
            await asyncio.Event().wait()
            raise AssertionError

        outcome = asyncio.run(Webhook(limits=QUICK, resolve=never).deliver(notification(), hook("https://a.example/")))
        assert outcome == Retry("no answer within 0.3 s")

    def test_proxies_of_the_environment_are_not_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def send() -> tuple[Outcome, int]:
            async with WebhookCatcher(SECRET) as catcher, WebhookCatcher() as proxy:
                for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
                    monkeypatch.setenv(name, proxy.url)
                return await Webhook(to_loopback(catcher.port)).deliver(
                    notification(), hook(catcher.url)
                ), proxy.connections

        assert asyncio.run(send()) == (Delivered(), 0)


class TestTls:
    def test_the_certificate_is_that_of_the_name_while_the_address_is_pinned(self) -> None:
        assert self._sent("hooks.example", trusted=True) == (Delivered(), ["hooks.example"])

    def test_a_certificate_of_another_name(self) -> None:
        outcome, _ = self._sent("other.example", trusted=True)
        assert isinstance(outcome, Retry)

    def test_a_certificate_that_nobody_signed(self) -> None:
        outcome, _ = self._sent("hooks.example", trusted=False)
        assert isinstance(outcome, Retry)

    def _sent(self, name: str, *, trusted: bool) -> tuple[Outcome, list[str]]:
        return asyncio.run(self._send(name, trusted=trusted))

    async def _send(self, name: str, *, trusted: bool) -> tuple[Outcome, list[str]]:
        asked_for: list[str] = []
        server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server_side.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
        server_side.sni_callback = lambda _socket, sni, _context: asked_for.append(str(sni))
        catcher = WebhookCatcher(SECRET)
        server = await asyncio.start_server(catcher._serve, "127.0.0.1", 0, ssl=server_side)
        port = int(server.sockets[0].getsockname()[1])
        context = ssl.create_default_context(cafile=str(TLS / "certificate.pem") if trusted else None)
        channel = Webhook(to_loopback(port), PATIENT, resolve=named("127.0.0.1"), tls=context)
        outcome = await channel.deliver(notification(), hook(f"https://{name}:{port}/hook"))
        await channel.close()
        server.close()
        if catcher.caught:
            assert catcher.caught[0].headers["host"] == f"{name}:{port}"
        return outcome, asked_for


class TestUrls:
    @pytest.mark.parametrize(
        "url",
        [
            "",
            "hooks.example",
            "ftp://hooks.example/",
            "file:///etc/passwd",
            "https:///path",
            "https://user:password@hooks.example/",
            "https://hooks.example:22/",
            "https://hooks.example:5432/",
            "https://hooks.example:0/",
            "http://hooks.example/",
            "http://127.0.0.1:9001/",
            "http://localhost:9000/",
            "https://hooks.example/\r\nx: y",
            "https://hooks.example/\x00",
            "https://a b/",
            "https://[fe80::1%25eth0]/",
            f"https://hooks.example/{'x' * 3_000}",
            f"https://{'x' * 300}.example/",
        ],
        ids=lambda url: url[:40],
    )
    def test_refused(self, url: str) -> None:
        with pytest.raises(TargetRefused):
            checked_url(url, to_loopback(9000))

    def test_taken(self) -> None:
        policy = to_loopback(9000)
        assert checked_url("https://bücher.example/ü?q=1#part", policy).origin.host == "xn--bcher-kva.example"
        assert checked_url("https://bücher.example/ü?q=1#part", policy).path == "/%C3%BC?q=1"
        assert checked_url("https://hooks.example", policy).host_header == "hooks.example"
        assert checked_url("http://127.0.0.1:9000/x", policy).host_header == "127.0.0.1:9000"
        assert checked_url("https://[2606:4700::1111]/", policy).host_header == "[2606:4700::1111]"

    def test_a_target_without_a_good_secret(self) -> None:
        channel = Webhook()
        channel.check(hook("https://hooks.example/"))
        for secrets in ((), ("whsec_x",)):
            with pytest.raises(TargetRefused):
                channel.check(hook("https://hooks.example/", secrets=secrets))
