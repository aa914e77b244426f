"""The one place where webhooks open sockets: a name is resolved once, every address judged, and one
of them connected to.

It is httpcore's network backend, below its pool, so that no redirect, retry or reused connection can go around it. The
URL keeps its name: Host and the certificate's name are right, while the connection goes to the address that was judged.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Final

import httpcore

from alerts.channels.public_addresses import Address, AddressPolicy, literal

RESOLVERS_MAX: Final = 32
"""Threads that wait for name servers, apart from all others: a name server that hangs delays other names only then."""
ADDRESSES_TRIED_MAX: Final = 3

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]


class AddressRefused(Exception):
    """The name stands for an address that webhooks may not reach. Never says which: the owner may be probing."""


class SystemResolver:
    """Asks the system, on threads of its own."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(RESOLVERS_MAX, thread_name_prefix="resolve")

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _look_up, host, port)
        return tuple(dict.fromkeys(ip_address(str(entry[4][0]).partition("%")[0]) for entry in found))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int) -> list[tuple[int, int, int, str, tuple[str | int, ...]]]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)  # type: ignore[return-value]


class GuardedNetwork(httpcore.AsyncNetworkBackend):
    def __init__(self, policy: AddressPolicy, resolve: Resolve) -> None:
        self._policy, self._resolve = policy, resolve
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Raises AddressRefused, or httpcore's ConnectError and ConnectTimeout."""
        addresses = await self._judged(host, port)
        failure: Exception = httpcore.ConnectError("no address")
        tried = addresses[:ADDRESSES_TRIED_MAX]
        for address in tried:
            try:
                share_s = None if timeout is None else timeout / len(tried)
                return await self._network.connect_tcp(str(address), port, share_s, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def _judged(self, host: str, port: int) -> Sequence[Address]:
        address = literal(host)
        try:
            found = [address] if address else await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"the name cannot be resolved: {error}") from error
        if not self._policy.allows_all(found, port):
            raise AddressRefused(host)
        return found

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise AddressRefused(path)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
