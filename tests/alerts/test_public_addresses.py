"""Which addresses webhooks may reach, judged beside Python's own tables."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alerts.channels.public_addresses import AddressPolicy, Opening, is_public
from cdc.errors import ConfigurationError

INSIDE = [
    "0.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.168.1.1",
    "198.18.0.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::808:808",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
]
PUBLIC = ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1", "64:ff9b::808:808"]


@pytest.mark.parametrize("text", INSIDE)
def test_inside(text: str) -> None:
    assert not is_public(ip_address(text))
    assert not AddressPolicy().allows(ip_address(text), 443)


@pytest.mark.parametrize("text", PUBLIC)
def test_public(text: str) -> None:
    assert is_public(ip_address(text))
    assert AddressPolicy().allows(ip_address(text), 443)


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
@example(ip_address("192.0.0.9"))
def test_never_public_where_python_says_otherwise(address: IPv4Address | IPv6Address) -> None:
    if is_public(address):
        assert address.is_global
        assert not address.is_multicast
        assert not address.is_private


@given(st.ip_addresses(v=4))
def test_an_address_inside_ipv6_is_no_better(four: IPv4Address) -> None:
    assert is_public(IPv6Address(int(IPv6Address("64:ff9b::")) + int(four))) == is_public(four)
    assert not is_public(IPv6Address(f"::ffff:{four}"))
    assert not is_public(IPv6Address(0x2002 << 112 | int(four) << 80))


def test_one_inside_address_refuses_them_all() -> None:
    policy = AddressPolicy()
    assert policy.allows_all([ip_address("1.1.1.1"), ip_address("2606:4700::1111")], 443)
    assert not policy.allows_all([ip_address("1.1.1.1"), ip_address("10.0.0.1")], 443)
    assert not policy.allows_all([], 443)


@pytest.mark.parametrize("port", [0, 22, 25, 80, 5432, 6379, 9200])
def test_other_ports(port: int) -> None:
    assert not AddressPolicy().allows(ip_address("1.1.1.1"), port)
    assert not AddressPolicy().may_use_port(port)


def test_an_opening_opens_just_that() -> None:
    policy = AddressPolicy(openings=(Opening.parse("127.0.0.1:9000"), Opening.parse("[fd00::/64]:*")))
    assert policy.allows(ip_address("127.0.0.1"), 9000)
    assert policy.allows(ip_address("fd00::5"), 5432)
    for text, port in (("127.0.0.1", 9001), ("127.0.0.2", 9000), ("::ffff:127.0.0.1", 9000), ("fd01::5", 443)):
        assert not policy.allows(ip_address(text), port)


@pytest.mark.parametrize("text", ["", "localhost:1", "127.0.0.1", "127.0.0.1:0", "1.2.3.4/40:1", "::1:9", "1.2.3.4:x"])
def test_no_opening(text: str) -> None:
    with pytest.raises(ConfigurationError):
        Opening.parse(text)
