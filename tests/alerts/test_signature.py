"""The specification's own example, and what a receiver makes of signatures."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.channels.signature import is_genuine, new_secret, secret_key, signature, signed_headers
from cdc.errors import ConfigurationError

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
AT = 1_614_265_330
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_reference_libraries_example() -> None:
    assert signature(secret_key(SECRET), ID, AT, BODY) == SIGNATURE


def test_each_secret_signs_during_a_rotation() -> None:
    old, new = new_secret(), new_secret()
    headers = signed_headers((new, old), ID, AT, BODY)
    assert headers["webhook-id"] == ID
    assert headers["webhook-timestamp"] == str(AT)
    assert len(headers["webhook-signature"].split(" ")) == 2
    for secret in (old, new):
        assert is_genuine(secret, ID, str(AT), headers["webhook-signature"], BODY, AT)
    assert not is_genuine(new_secret(), ID, str(AT), headers["webhook-signature"], BODY, AT)


@given(body=st.binary(max_size=50), other=st.binary(max_size=50))
def test_another_body_is_not_genuine(body: bytes, other: bytes) -> None:
    signed = signed_headers((SECRET,), ID, AT, body)["webhook-signature"]
    assert is_genuine(SECRET, ID, str(AT), signed, other, AT) == (body == other)


@pytest.mark.parametrize(("at", "genuine"), [(AT - 301, False), (AT - 300, True), (AT + 300, True), (AT + 301, False)])
def test_an_old_signature_is_not_genuine(at: int, genuine: bool) -> None:
    assert is_genuine(SECRET, ID, str(AT), SIGNATURE, BODY, at) is genuine


@pytest.mark.parametrize("timestamp", ["", "x", "1e9", "-1", "١٢", str(AT + 1)])
def test_an_odd_timestamp_is_not_genuine(timestamp: str) -> None:
    assert not is_genuine(SECRET, ID, timestamp, SIGNATURE, BODY, AT)


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_not base64!",
        "whsec_" + base64.b64encode(b"x" * 23).decode(),
        "whsec_" + base64.b64encode(b"x" * 65).decode(),
    ],
)
def test_a_bad_secret_is_refused_without_repeating_it(secret: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        secret_key(secret)
    assert not secret or secret not in str(refused.value).replace("whsec_ and", "")


@pytest.mark.parametrize("count", [0, 6])
def test_no_secret_or_too_many(count: int) -> None:
    with pytest.raises(ConfigurationError):
        signed_headers([SECRET] * count, ID, AT, BODY)
