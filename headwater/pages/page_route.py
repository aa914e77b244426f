"""Routes of pages: an error is a page too, with its fact, detail and hint. `APIRouter(route_class=PageRoute)`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from cdc.errors import ConfigurationError, HeadwaterError
from headwater.api.problems import headers_of, status_of, what_is_wrong
from headwater.pages.gate import NotSignedIn
from headwater.pages.rendering import page


class PageRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def explained(request: Request) -> Response:
            try:
                return await handle(request)
            except NotSignedIn:
                raise
            except HeadwaterError as error:
                return _told(request, error)
            except RequestValidationError as error:
                return _told(request, ConfigurationError("no page has that address", detail=what_is_wrong(error)))

        return explained


def _told(request: Request, error: HeadwaterError) -> Response:
    told = {"fact": error.fact, "detail": error.detail, "hint": error.hint}
    return page(request, "error.html", status_of(error), headers_of(error), **told)
