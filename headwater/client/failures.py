"""What can go wrong while reading, each with the server's own fact, detail and hint.

HeadwaterError
├── ConfigurationError     what was given cannot be sent: no key, two columns to look up by
├── Unreachable            no answer came
│   └── TimedOut           in the time that was given
└── ApiError               the server said no; `status` is HTTP's
    ├── BadRequest         400, 422: the question is wrong
    ├── Unauthorized       401: no key, or none that is known
    ├── Forbidden          403: the key may not do that
    ├── NotFound           404: there is no such view, or it is not in that sink
    ├── TooMany            429: more than the limits allow
    ├── Unavailable        503: the sink does not answer now
    └── NotYet             504: the answer would not include the write that the token stands for
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import httpx

from cdc.errors import HeadwaterError

BODY_CHARACTERS_MAX: Final = 500
"""Of an answer that is not ours (a proxy's page), told as detail."""


class Unreachable(HeadwaterError):
    """No answer came."""


class TimedOut(Unreachable):
    """No answer came in time."""


class ApiError(HeadwaterError):
    """The server said no."""

    def __init__(
        self, fact: str, *, detail: str = "", hint: str = "", status: int = 0, retry_after_s: float | None = None
    ) -> None:
        super().__init__(fact, detail=detail, hint=hint)
        self.status = status
        self.retry_after_s = retry_after_s
        """How long the server asks to wait before the next try."""

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.fact, self.detail, self.hint, self.status, self.retry_after_s)


class BadRequest(ApiError):
    """What was asked for is not something one can ask for."""


class Unauthorized(ApiError):
    """No key, or none that is known."""


class Forbidden(ApiError):
    """The key may not do that."""


class NotFound(ApiError):
    """There is no such view, or it is not there."""


class TooMany(ApiError):
    """Too many requests, or too much asked for at once."""


class Unavailable(ApiError):
    """The place that is read does not answer now."""


class NotYet(ApiError):
    """The answer would not include the write that it has to include."""


_KINDS: Final[Mapping[int, type[ApiError]]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    422: BadRequest,
    429: TooMany,
    503: Unavailable,
    504: NotYet,
}


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error that an answer stands for."""
    told = _told(body)
    kind = _KINDS.get(status, ApiError)
    if "error" in told:
        fact, detail, hint = (str(told.get(name) or "") for name in ("error", "detail", "hint"))
    else:
        kind = ApiError if kind is NotYet else kind  # a gateway's own 504 says nothing about a write
        fact, detail, hint = f"the server answered {status}", _detail(told, body), ""
    return kind(fact, detail=detail, hint=hint, status=status, retry_after_s=_retry_after_s(headers))


def lost(error: httpx.TransportError, url: str) -> Unreachable:
    kind = TimedOut if isinstance(error, httpx.TimeoutException) else Unreachable
    fact = "the server did not answer in time" if kind is TimedOut else "the server cannot be reached"
    return kind(fact, detail=f"{url}: {str(error) or type(error).__name__}", hint="headwater status")


def _told(body: bytes) -> dict[str, Any]:
    try:
        told = json.loads(body)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _detail(told: dict[str, Any], body: bytes) -> str:
    """Of a question that does not even have the right shape, the places that are wrong; else the text as it came."""
    wrong = told.get("detail")
    if isinstance(wrong, list):
        return "; ".join(f"{'.'.join(map(str, each.get('loc', ())))}: {each.get('msg', '')}" for each in wrong)
    return body[:BODY_CHARACTERS_MAX].decode("utf-8", "replace").strip()


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Only the form in seconds: the one that the API uses."""
    text = headers.get("Retry-After", "").strip()
    return float(text) if text.isdecimal() else None


def _rebuild(
    kind: type[ApiError], fact: str, detail: str, hint: str, status: int, retry_after_s: float | None
) -> ApiError:
    return kind(fact, detail=detail, hint=hint, status=status, retry_after_s=retry_after_s)
