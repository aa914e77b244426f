"""`/console/story`: every version of one row of a view, what changed in it, and what caused that."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request, Response

from cdc.errors import ConfigurationError, HeadwaterError
from headwater.pages.page_route import PageRoute
from headwater.views.story import Story, story

if TYPE_CHECKING:
    from headwater.pages.console import Console

VERSIONS_SHOWN: Final = 20
KEY_CHARACTERS_MAX: Final = 2_000


def router(console: Console) -> APIRouter:
    routes = APIRouter(route_class=PageRoute, include_in_schema=False)

    @routes.get("/console/story")
    async def tell(request: Request, view: str = "", key: str = "") -> Response:
        session = await console.gate.admit(request)
        found: Story | None = None
        problem: HeadwaterError | None = None
        if view and key:
            try:
                asked = words(key[:KEY_CHARACTERS_MAX])
                found = await console.away(lambda: story(console.place, view, asked, versions_max=VERSIONS_SHOWN))
            except HeadwaterError as error:
                problem = error
        views = sorted(console.kept.registry.wanted().views)
        return console.page(
            request, "console/story.html", session, view=view, key=key, views=views, story=found, problem=problem
        )

    return routes


def words(key: str) -> list[str]:
    """As it would be typed in a terminal: `5`, `id=5 line=2`, or a JSON object as it is."""
    if key.lstrip().startswith("{"):
        return [key.strip()]
    try:
        return shlex.split(key)
    except ValueError as error:
        raise ConfigurationError("the key cannot be read", detail=str(error), hint="id=5 name='two words'") from error
