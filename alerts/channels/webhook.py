"""Webhooks by the Standard Webhooks specification: one signed POST, and what its answer means.

The status decides as soon as it is there; the rest of an answer is never shown. Which addresses it may reach:
guarded_network.py. What a URL may be: `checked_url`.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import httpx

from alerts.channels.channel import Delivered, Gone, Outcome, Refused, Retry, Target, TargetRefused
from alerts.channels.connections import Connections, Origin
from alerts.channels.guarded_network import AddressRefused, GuardedNetwork, Resolve, SystemResolver
from alerts.channels.http_post import Answer, AnswerBroken, Connection
from alerts.channels.public_addresses import AddressPolicy
from alerts.channels.retry_after import retry_after_s
from alerts.channels.signature import signed_headers
from alerts.clock import Clock, system_clock
from alerts.notification import Notification
from alerts.notification_json import payload
from cdc.errors import ConfigurationError

NAME: Final = "webhook"
URL_CHARACTERS_MAX: Final = 2_000
HOST_CHARACTERS_MAX: Final = 253
_GONE: Final = 410
_TIMED_OUT: Final = 408
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}
_HEADERS: Final = (
    ("content-type", "application/json"),
    ("accept", "*/*"),
    ("accept-encoding", "identity"),
    ("user-agent", "Headwater-Webhooks/1"),
)


@dataclass(frozen=True, slots=True)
class WebhookLimits:
    connect_s: float = 5.0
    request_s: float = 15.0
    """All of an attempt: the name, the connection, the request, and the answer's status."""
    drain_s: float = 1.0
    """For the rest of the answer."""
    answer_bytes_max: int = 65_536
    payload_bytes_max: int = 1_000_000
    idle_connections_max: int = 200
    idle_s: float = 15.0


@dataclass(frozen=True, slots=True)
class Url:
    """A URL that was checked; what an owner wrote is never sent as it is."""

    origin: Origin
    path: str

    @property
    def host_header(self) -> str:
        scheme, host, port = self.origin
        shown = f"[{host}]" if ":" in host else host
        return shown if port == _DEFAULT_PORTS[scheme] else f"{shown}:{port}"


@dataclass(slots=True)
class Webhook:
    policy: AddressPolicy = field(default_factory=AddressPolicy)
    limits: WebhookLimits = field(default_factory=WebhookLimits)
    clock: Clock = system_clock
    resolve: Resolve | None = None
    """None: the system's."""
    tls: ssl.SSLContext = field(default_factory=lambda: httpx.create_ssl_context(trust_env=False), repr=False)
    _network: GuardedNetwork = field(init=False, repr=False)
    _connections: Connections = field(init=False, repr=False)
    _resolver: SystemResolver = field(init=False, repr=False, default_factory=SystemResolver)

    def __post_init__(self) -> None:
        self._network = GuardedNetwork(self.policy, self.resolve or self._resolver, self.limits.connect_s)
        self._connections = Connections(self.limits.idle_connections_max, self.limits.idle_s)

    @property
    def name(self) -> str:
        return NAME

    def check(self, target: Target) -> None:
        checked_url(target.address, self.policy)
        try:
            signed_headers(target.secrets, "check", 0, b"")
        except ConfigurationError as error:
            raise TargetRefused(error.fact, detail=error.detail, hint=error.hint) from error

    async def deliver(self, notification: Notification, target: Target) -> Outcome:
        body = payload(notification)
        if len(body) > self.limits.payload_bytes_max:
            return Refused(f"the payload has {len(body)} bytes, more than {self.limits.payload_bytes_max}")
        try:
            url = checked_url(target.address, self.policy)
            signed = signed_headers(target.secrets, notification.id, int(self.clock().timestamp()), body)
        except (TargetRefused, ConfigurationError) as error:
            return Refused(error.fact)
        return await self._attempt(url, [("host", url.host_header), *_HEADERS, *signed.items()], body)

    async def _attempt(self, url: Url, headers: list[tuple[str, str]], body: bytes) -> Outcome:
        try:
            async with asyncio.timeout(self.limits.request_s):
                connection, answer = await self._asked(url, headers, body)
        except AddressRefused:
            return Refused("the host's address is not one that webhooks may reach")
        except TimeoutError:
            return Retry(f"no answer within {self.limits.request_s:g} s")
        except (OSError, AnswerBroken) as error:
            return Retry(f"the request failed: {type(error).__name__}")
        outcome = self._outcome(answer)
        await self._let_go(url.origin, connection)
        return outcome

    async def _asked(self, url: Url, headers: list[tuple[str, str]], body: bytes) -> tuple[Connection, Answer]:
        if kept := self._connections.take(url.origin):
            with suppress(OSError, AnswerBroken):  # closed just now by the other side: no failure of the endpoint
                connection, answer = await self._posted(kept, url, headers, body)
                if answer.status != _TIMED_OUT:
                    return connection, answer
                connection.close()  # it says that nothing was asked for long, and was said before this was
        return await self._posted(await self._connected(url.origin), url, headers, body)

    async def _posted(
        self, connection: Connection, url: Url, headers: list[tuple[str, str]], body: bytes
    ) -> tuple[Connection, Answer]:
        try:
            return connection, await connection.post(url.path, headers, body)
        except BaseException:
            connection.close()
            raise

    async def _connected(self, origin: Origin) -> Connection:
        tls = self.tls if origin.scheme == "https" else None
        return Connection(*await self._network.connect(origin.host, origin.port, tls))

    def _outcome(self, answer: Answer) -> Outcome:
        if 200 <= answer.status < 300:
            return Delivered()
        if answer.status == _GONE:
            return Gone("the endpoint answered 410 Gone")
        after_s = retry_after_s(answer.header("retry-after"), self.clock())
        return Retry(f"the endpoint answered {answer.status}", after_s)

    async def _let_go(self, origin: Origin, connection: Connection) -> None:
        """To be used again, or closed when it has too much to say, or says it too slowly. The outcome stands."""
        is_usable = False
        try:
            async with asyncio.timeout(self.limits.drain_s):
                is_usable = await connection.drain(self.limits.answer_bytes_max)
        except (OSError, AnswerBroken):
            is_usable = False
        finally:
            if is_usable:
                self._connections.give_back(origin, connection)
            else:
                connection.close()

    async def close(self) -> None:
        self._connections.close()
        self._resolver.close()


def checked_url(text: str, policy: AddressPolicy) -> Url:
    """Raises TargetRefused. Plain http goes only to an address that the operator opened."""
    try:
        url = httpx.URL(text) if len(text) <= URL_CHARACTERS_MAX and text.isprintable() else None
        host = url.raw_host.decode("ascii") if url else ""
    except (httpx.InvalidURL, UnicodeError, ValueError, TypeError):
        url, host = None, ""
    if url is None or url.scheme not in _DEFAULT_PORTS or not 1 <= len(host) <= HOST_CHARACTERS_MAX:
        raise TargetRefused("not a URL for webhooks", hint="https://HOST/PATH")
    if url.userinfo or "%" in host:
        raise TargetRefused("a webhook's URL has no user, password or zone", hint="https://HOST/PATH")
    port = _DEFAULT_PORTS[url.scheme] if url.port is None else url.port
    if not policy.may_use_port(port):
        ports = ", ".join(str(port) for port in policy.ports)
        raise TargetRefused(f"webhooks are not sent to port {port}", detail=f"they are to: {ports}")
    if url.scheme == "http" and not policy.opens_host(host, port):
        raise TargetRefused("a webhook's URL begins with https://", detail="plain http can be read on the way")
    return Url(Origin(url.scheme, host, port), url.raw_path.decode("ascii"))
