"""The log's JSON, checked: the first step of every reader of values. Each raises ValueError for what it is not."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping
from typing import Final

_SPECIAL_FLOATS: Final = frozenset({"NaN", "Infinity", "-Infinity"})


def expected(kind: type, value: object) -> ValueError:
    return ValueError(f"expected {kind.__name__}, found {type(value).__name__}")


def text(value: object) -> str:
    if not isinstance(value, str):
        raise expected(str, value)
    return value


def integer(value: object) -> int:
    if type(value) is not int:
        raise expected(int, value)
    return value


def boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise expected(bool, value)
    return value


def double(value: object) -> float:
    """JSON has no NaN and no infinity: they are text."""
    if type(value) is float or type(value) is int:
        return float(value)
    if isinstance(value, str) and value in _SPECIAL_FLOATS:
        return float(value)
    raise expected(float, value)


def struct(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise expected(dict, value)
    return value


def decoded(value: object) -> bytes:
    try:
        return b64decode(text(value), validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from None


def decoded_text(value: object) -> str:
    return decoded(value).decode()
