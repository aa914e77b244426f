"""What went wrong, as an answer: the fact, the detail and the hint of every HeadwaterError, under a fitting status."""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from alerts.channels.channel import TargetRefused
from alerts.refusals import NoSuchSearch, NothingIsSent, QueryTooBroad, TooManySearches
from cdc.errors import ConfigurationError, HeadwaterError, SinkUnavailable, SourceUnavailable, ViewError
from search.errors import CursorExpired, CursorRefused, QueryRefused


class NotFound(HeadwaterError):
    """There is no such thing."""


class Forbidden(HeadwaterError):
    """The key may not do that."""


class Unauthorized(HeadwaterError):
    """No key, or none that is known."""


class Misdirected(HeadwaterError):
    """The server was called by a name that is not one of its own."""


class TooMany(HeadwaterError):
    """Too many requests, or too much asked for at once."""

    retry_after_s: float = 1.0


class NotYet(HeadwaterError):
    """The answer would not include the write that it has to include."""


_STATUS: Final[tuple[tuple[type[HeadwaterError], int], ...]] = (
    (NotFound, 404),
    (NoSuchSearch, 404),
    (TooManySearches, 409),
    (NothingIsSent, 409),
    (QueryTooBroad, 400),
    (TargetRefused, 400),
    (Unauthorized, 401),
    (Forbidden, 403),
    (Misdirected, 421),
    (TooMany, 429),
    (NotYet, 504),
    (ConfigurationError, 400),
    (QueryRefused, 400),
    (CursorExpired, 410),
    (CursorRefused, 400),
    (ViewError, 409),
    (SinkUnavailable, 503),
    (SourceUnavailable, 503),
)


def status_of(error: HeadwaterError) -> int:
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def headers_of(error: HeadwaterError) -> dict[str, str]:
    headers = {}
    if isinstance(error, TooMany | SinkUnavailable | SourceUnavailable):
        headers["Retry-After"] = f"{max(1, round(error.retry_after_s))}"
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    return headers


def answer(error: HeadwaterError) -> JSONResponse:
    told = {"error": error.fact, "detail": error.detail, "hint": error.hint, **error.figures}
    return JSONResponse(told, status_of(error), headers_of(error))


def register(app: FastAPI) -> None:
    @app.exception_handler(HeadwaterError)
    async def explain(_request: Request, error: HeadwaterError) -> JSONResponse:
        return answer(error)

    @app.exception_handler(RequestValidationError)
    async def refuse(_request: Request, error: RequestValidationError) -> JSONResponse:
        return answer(
            ConfigurationError("the request is not one of these", detail=what_is_wrong(error), hint="see /docs")
        )


def what_is_wrong(error: RequestValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
