"""`/`: a small page that leads to the others. A new door is one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from headwater.pages.page_route import PageRoute
from headwater.pages.rendering import page


@dataclass(frozen=True, slots=True)
class Door:
    path: str
    """Below the root."""
    name: str
    says: str


def router(doors: Sequence[Door] = ()) -> APIRouter:
    routes = APIRouter(route_class=PageRoute, include_in_schema=False)

    @routes.get("/")
    def front(request: Request) -> Response:
        return page(request, "front.html", doors=doors)

    return routes
