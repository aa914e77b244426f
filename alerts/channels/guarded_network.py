"""The one place where webhooks open sockets: a name is resolved once, every address judged, and one
of them connected to.

The connection goes to the address that was judged, while the certificate is compared with the name: nobody can answer
the name's second lookup with another address, because there is none.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from alerts.channels.public_addresses import Address, AddressPolicy, literal

RESOLVERS_MAX: Final = 400
"""Threads that wait for name servers: for names whose last lookup was answered, and as many for all others. As many as
attempts run at once (DeliveryLimits), but a lookup that hangs outlives its attempt: so those are apart."""
NAMES_KNOWN_MAX: Final = 50_000
ADDRESSES_TRIED_MAX: Final = 3

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class AddressRefused(Exception):
    """The name stands for an address that webhooks may not reach. Never says which: the owner may be probing."""


class SystemResolver:
    """Asks the system, on threads of its own: names that hang delay none whose last lookup was answered."""

    def __init__(self) -> None:
        self._known = dict[str, None]()
        """Names whose last lookup was answered, the longest known first."""
        self._for_known = ThreadPoolExecutor(RESOLVERS_MAX, thread_name_prefix="resolve")
        self._for_others = ThreadPoolExecutor(RESOLVERS_MAX, thread_name_prefix="resolve-other")

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        threads = self._for_known if host in self._known else self._for_others
        try:
            found = await asyncio.get_running_loop().run_in_executor(threads, _look_up, host, port)
        except BaseException:  # given up, too
            self._known.pop(host, None)
            raise
        self._known[host] = None
        if len(self._known) > NAMES_KNOWN_MAX:
            del self._known[next(iter(self._known))]
        return tuple(dict.fromkeys(ip_address(name.partition("%")[0]) for name in found))

    def close(self) -> None:
        for threads in (self._for_known, self._for_others):
            threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(entry[4][0]) for entry in found]


@dataclass(frozen=True, slots=True)
class GuardedNetwork:
    policy: AddressPolicy
    resolve: Resolve
    connect_s: float
    """For all addresses of a name together."""

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None) -> Streams:
        """Raises AddressRefused, or OSError but never TimeoutError, which is the whole attempt's."""
        addresses = await self._judged(host, port)
        failure: OSError | None = None
        tried = addresses[:ADDRESSES_TRIED_MAX]
        for address in tried:
            try:
                async with asyncio.timeout(self.connect_s / len(tried)):
                    name = host if tls else None
                    return await asyncio.open_connection(str(address), port, ssl=tls, server_hostname=name)
            except OSError as error:
                failure = error
        raise ConnectionError("no address of it could be connected to") from failure

    async def _judged(self, host: str, port: int) -> Sequence[Address]:
        address = literal(host)
        try:
            found = [address] if address else await self.resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise OSError("the name cannot be resolved") from error
        if not self.policy.allows_all(found, port):
            raise AddressRefused(host)
        return found
