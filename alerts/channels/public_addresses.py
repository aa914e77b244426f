"""Which addresses a webhook may be sent to: public ones on few ports, and what the operator opened by name.

Owners choose the URLs, and the machine that calls them stands inside somebody's network. Judged are addresses, never
names: a name can mean another address a moment later. Everything that is not known to be public is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from cdc.errors import ConfigurationError

Address = IPv4Address | IPv6Address
PORTS: Final = (443,)

_NOT_PUBLIC_4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by a carrier's customers; a cloud's metadata
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a cloud's own server for its machines
        "169.254.0.0/16",  # link-local; most clouds' metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; a cloud's metadata
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays to IPv6
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
_UNICAST_6: Final = IPv6Network("2000::/3")
"""All that is assigned for the public; loopback, private, link-local, multicast and mapped IPv4 lie outside."""
_NOT_PUBLIC_6: Final = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: an IPv4 address in disguise
        "3fff::/20",  # documentation
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")
"""Where a name server makes IPv6 addresses of public IPv4 ones; as good as the address inside."""
_OPENING: Final = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+(?:/\d+)?)\]|(?P<four>[0-9.]+(?:/\d+)?)):(?P<port>\d{1,5}|\*)"
)


def is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in _UNICAST_6 and not any(address in network for network in _NOT_PUBLIC_6)


@dataclass(frozen=True, slots=True)
class Opening:
    """A place inside that webhooks may reach all the same."""

    network: IPv4Network | IPv6Network
    port: int | None
    """None: every port."""

    @classmethod
    def parse(cls, text: str) -> Opening:
        """`127.0.0.1:9000`, `10.1.0.0/16:443`, `[::1]:9000`, `10.1.2.3:*`."""
        found = _OPENING.fullmatch(text.strip())
        try:
            if not found:
                raise ValueError(text)
            port = None if found["port"] == "*" else int(found["port"])
            if port is not None and not 1 <= port <= 65_535:
                raise ValueError(text)
            return cls(ip_network(found["six"] or found["four"]), port)
        except ValueError:
            raise ConfigurationError(
                f"not an opening: {text}", detail="it is ADDRESS:PORT or NETWORK:PORT", hint="127.0.0.1:9000"
            ) from None

    def covers(self, address: Address, port: int) -> bool:
        return self.port in (None, port) and address.version == self.network.version and address in self.network


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    ports: tuple[int, ...] = PORTS
    openings: tuple[Opening, ...] = ()

    def opens(self, address: Address, port: int) -> bool:
        return any(opening.covers(address, port) for opening in self.openings)

    def allows(self, address: Address, port: int) -> bool:
        return self.opens(address, port) or (port in self.ports and is_public(address))

    def allows_all(self, addresses: Iterable[Address], port: int) -> bool:
        """One bad address among good ones refuses them all: it is no accident. No address is no permission either."""
        judged = [self.allows(address, port) for address in addresses]
        return bool(judged) and all(judged)

    def may_use_port(self, port: int) -> bool:
        """Whether any address could be allowed on it."""
        return port in self.ports or any(opening.port in (None, port) for opening in self.openings)

    def opens_host(self, host: str, port: int) -> bool:
        """Whether the host is itself an address that was opened."""
        address = literal(host)
        return address is not None and self.opens(address, port)


def literal(host: str) -> Address | None:
    """The address that a URL's host is, if it is one in its usual form."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None
