"""`/v1/alerts`: saved searches of their owner, what they told, a preview, and why a row matches one or does not.

Whose they are is the key's to say (owners.py). The database is asked in threads.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Body, Query, Request, Response

from headwater.saved_searches import names_target, told_explanation, told_news, told_trial

if TYPE_CHECKING:
    from headwater.api.reading import Reading

JSON: Final = "application/json"
INBOX_ROWS: Final = 100
CREATED: Final = 201
PREVIEW_DAYS: Final = 7

Wished = Annotated[
    dict[str, Any],
    Body(description="view, query (text or JSON), events, channel, target, frequency, …: docs/alerts.md"),
]
After = Annotated[int, Query(ge=0, description="The last sequence that is known already.")]
Days = Annotated[int, Query(ge=0, description="How far back events are counted.")]
Size = Annotated[int, Query(ge=1, le=1_000)]


def router(reading: Reading) -> APIRouter:
    routes = APIRouter(prefix="/v1/alerts", tags=["alerts"])
    _add_questions(routes, reading)
    _add_searches(routes, reading)
    return routes


def _add_questions(routes: APIRouter, reading: Reading) -> None:
    searches = reading.searches

    @routes.get("/inbox")
    async def inbox(request: Request, after: After = 0, size: Size = INBOX_ROWS) -> Response:
        """What matched, oldest first; `next` is the `after` of the next call. Numbers come in their order."""
        owner = await reading.admit_owner(request)
        found = await asyncio.to_thread(searches.inbox, owner, after, size)
        last = found[-1].sequence if found else after
        return _answered({"owner": owner, "news": [told_news(news) for news in found], "next": last})

    @routes.post("/preview")
    async def preview(request: Request, wish: Wished, days: Days = PREVIEW_DAYS) -> Response:
        """How many rows match now, and what would have been told in the last days. Saves nothing."""
        await reading.admit_owner(request)
        return _answered(await reading.slow.ask(lambda: searches.preview(wish, days)))

    @routes.post("/preview/{key:path}")
    async def try_out(request: Request, wish: Wished, key: str) -> Response:
        """Why a row matches now or does not, clause by clause. Saves nothing."""
        await reading.admit_owner(request)
        return _answered(told_trial(await reading.slow.ask(lambda: searches.try_out(wish, key))))

    @routes.get("/{id_}/explain/{key:path}")
    async def explain(request: Request, id_: int, key: str) -> Response:
        """Why a row matches a saved search now or does not, clause by clause, and what was told of it."""
        owner = await reading.admit_owner(request)
        found = await reading.slow.ask(lambda: searches.explain(owner, id_, key))
        return _answered(told_explanation(found))


def _add_searches(routes: APIRouter, reading: Reading) -> None:
    searches = reading.searches

    @routes.get("")
    async def listed(request: Request) -> Response:
        """The owner's saved searches."""
        owner = await reading.admit_owner(request)
        found = await asyncio.to_thread(lambda: searches.all_told(searches.listed(owner)))
        return _answered({"owner": owner, "alerts": found})

    @routes.post("", status_code=CREATED)
    async def create(request: Request, wish: Wished) -> Response:
        """Saves a search: it tells of what is committed from now on. A webhook's signing secret is in the answer."""
        owner = await reading.admit_owner(request)
        made = await asyncio.to_thread(searches.create, owner, wish)
        return _answered(await asyncio.to_thread(searches.told_with_secret, made), CREATED)

    @routes.get("/{id_}")
    async def read(request: Request, id_: int) -> Response:
        owner = await reading.admit_owner(request)
        return _answered(await asyncio.to_thread(lambda: searches.told(searches.read(owner, id_))))

    @routes.patch("/{id_}")
    async def update(request: Request, id_: int, wish: Wished) -> Response:
        """Changes what is named; `paused` stops it and lets it go on. Another webhook comes with its secret."""
        owner = await reading.admit_owner(request)
        made = await asyncio.to_thread(searches.update, owner, id_, wish)
        return _answered(await asyncio.to_thread(searches.told_with_secret, made, is_shown=names_target(wish)))

    @routes.post("/{id_}/secret")
    async def rotate(request: Request, id_: int) -> Response:
        """Another secret for a webhook; the one before it signs beside it until the next one."""
        owner = await reading.admit_owner(request)
        return _answered({"id": id_, "secret": await asyncio.to_thread(searches.rotate_secret, owner, id_)})

    @routes.delete("/{id_}")
    async def remove(request: Request, id_: int) -> Response:
        owner = await reading.admit_owner(request)
        await asyncio.to_thread(searches.remove, owner, id_)
        return _answered({"id": id_, "state": "removed"})


def _answered(body: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, media_type=JSON)
