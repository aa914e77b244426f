"""Signatures of webhooks by the Standard Webhooks specification 1.0.0, symmetric (v1): pure.

Signed is `id.timestamp.body`. During a rotation every secret signs, and a receiver accepts any one of the signatures.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets as random_bytes
from collections.abc import Sequence
from typing import Final

from cdc.errors import ConfigurationError

PREFIX: Final = "whsec_"
SECRET_BYTES: Final = 32
SECRET_BYTES_MIN: Final = 24
SECRET_BYTES_MAX: Final = 64
SECRETS_MAX: Final = 5
"""That sign at the same time."""
TOLERANCE_S: Final = 300


def new_secret() -> str:
    return PREFIX + base64.b64encode(random_bytes.token_bytes(SECRET_BYTES)).decode()


def secret_key(secret: str) -> bytes:
    """The key that a secret's text stands for. Its messages never repeat it."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX) or not SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX:
        raise ConfigurationError(
            "not a secret for webhooks",
            detail=f"it is {PREFIX} and {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes in base64",
            hint="leave it out, and one is made",
        )
    return key


def signature(key: bytes, id_: str, timestamp: int, body: bytes) -> str:
    signed = hmac.new(key, b"%b.%d.%b" % (id_.encode(), timestamp, body), hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


def signed_headers(secrets: Sequence[str], id_: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers of one attempt."""
    if not 1 <= len(secrets) <= SECRETS_MAX:
        raise ConfigurationError(f"a webhook has 1 to {SECRETS_MAX} secrets", detail=f"it has {len(secrets)}")
    signatures = " ".join(signature(secret_key(secret), id_, timestamp, body) for secret in secrets)
    return {"webhook-id": id_, "webhook-timestamp": str(timestamp), "webhook-signature": signatures}


def is_genuine(secret: str, id_: str, timestamp: str, signatures: str, body: bytes, now_s: float) -> bool:
    """What a receiver checks: an own signature among those given, made within the last minutes."""
    if not timestamp.isascii() or not timestamp.isdigit() or abs(now_s - int(timestamp)) > TOLERANCE_S:
        return False
    expected = signature(secret_key(secret), id_, int(timestamp), body).encode()
    return any(hmac.compare_digest(expected, given.encode()) for given in signatures.split(" "))
