"""Webhooks by the Standard Webhooks specification: one signed POST, and what its answer means.

The status decides as soon as it is there; the rest of an answer is read only within narrow limits, to use the
connection again, and never shown. No redirects, no proxies, no decompression: httpcore does none of it. Which addresses
it may reach: guarded_network.py.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final

import httpcore
import httpx

from alerts.channels.channel import Delivered, Gone, Outcome, Refused, Retry, Target, TargetRefused
from alerts.channels.guarded_network import AddressRefused, GuardedNetwork, Resolve, SystemResolver
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
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}
_HEADERS: Final = {
    "content-type": "application/json",
    "accept": "*/*",
    "accept-encoding": "identity",
    "user-agent": "Headwater-Webhooks/1",
}


@dataclass(frozen=True, slots=True)
class WebhookLimits:
    connect_s: float = 5.0
    request_s: float = 15.0
    """All of an attempt: the name, the connection, the request, and the answer's status."""
    drain_s: float = 1.0
    """For the rest of the answer."""
    answer_bytes_max: int = 65_536
    payload_bytes_max: int = 1_000_000
    idle_connections_max: int = 64
    idle_s: float = 15.0


@dataclass(frozen=True, slots=True)
class _Url:
    """A URL that was checked; what an owner wrote is never sent as it is."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def wire(self) -> httpcore.URL:
        return httpcore.URL(scheme=self.scheme, host=self.host, port=self.port, target=self.path)

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(slots=True)
class Webhook:
    policy: AddressPolicy = field(default_factory=AddressPolicy)
    limits: WebhookLimits = field(default_factory=WebhookLimits)
    clock: Clock = system_clock
    resolve: Resolve | None = None
    """None: the system's."""
    tls: ssl.SSLContext | None = None
    _pool: httpcore.AsyncConnectionPool = field(init=False, repr=False)
    _resolver: SystemResolver = field(init=False, repr=False, default_factory=SystemResolver)

    def __post_init__(self) -> None:
        network = GuardedNetwork(self.policy, self.resolve or self._resolver)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=self.tls or httpx.create_ssl_context(trust_env=False),
            max_connections=None,  # delivery bounds how many attempts run; a wait here would be one behind a stranger
            max_keepalive_connections=self.limits.idle_connections_max,
            keepalive_expiry=self.limits.idle_s,
            network_backend=network,
        )

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
        return await self._attempt(url, {"host": url.host_header, **_HEADERS, **signed}, body)

    async def _attempt(self, url: _Url, headers: dict[str, str], body: bytes) -> Outcome:
        try:
            async with asyncio.timeout(self.limits.request_s) as deadline, self._asked(url, headers, body) as answer:
                deadline.reschedule(None)
                outcome = self._outcome(answer)
                await self._drain(answer)
                return outcome
        except AddressRefused:
            return Refused("the host's address is not one that webhooks may reach")
        except TimeoutError:
            return Retry(f"no answer within {self.limits.request_s:g} s")
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, ssl.SSLError) as error:
            return Retry(f"the request failed: {type(error).__name__}")

    def _asked(self, url: _Url, headers: dict[str, str], body: bytes) -> AbstractAsyncContextManager[httpcore.Response]:
        waits = {"connect": self.limits.connect_s, "read": self.limits.request_s, "write": self.limits.request_s}
        fields = list(headers.items())
        return self._pool.stream("POST", url.wire, headers=fields, content=body, extensions={"timeout": waits})

    def _outcome(self, answer: httpcore.Response) -> Outcome:
        if 200 <= answer.status < 300:
            return Delivered()
        if answer.status == _GONE:
            return Gone("the endpoint answered 410 Gone")
        said = next((value for name, value in answer.headers if name.lower() == b"retry-after"), None)
        after_s = retry_after_s(said.decode("latin-1") if said is not None else None, self.clock())
        return Retry(f"the endpoint answered {answer.status}", after_s)

    async def _drain(self, answer: httpcore.Response) -> None:
        """So that the connection can be used again; one that has too much to say, or says it too slowly, is closed."""
        left = self.limits.answer_bytes_max
        try:
            async with asyncio.timeout(self.limits.drain_s):
                async for chunk in answer.aiter_stream():
                    left -= len(chunk)
                    if left < 0:
                        return
        except (TimeoutError, httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError):
            return

    async def close(self) -> None:
        await self._pool.aclose()
        self._resolver.close()


def checked_url(text: str, policy: AddressPolicy) -> _Url:
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
    return _Url(url.scheme, host, port, url.raw_path.decode("ascii"))
