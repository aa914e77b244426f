"""`/v1/views/…/at`, `/v1/views/…/diff`, `/v1/views/…/KEY/story`, `/v1/verify/history`: looking back over HTTP.

What caused a change is in tables that a view may hide from its readers, so it takes the scope admin; the versions of a
row take read, as the row does. They read much for one answer: only a few at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from fastapi import APIRouter, Query, Request, Response

from headwater.api.key_lookup import answered
from headwater.api.problems import TooMany
from headwater.views.past import EXAMPLES, NOW, ROWS_MAX, diff, view_at
from headwater.views.past_objects import diff_object, rows_object, story_object
from headwater.views.place import Place
from headwater.views.story import VERSIONS_MAX, story
from headwater.views.verify_objects import run_object, wrong_objects
from headwater.views.verify_view import history_of, verify_history
from views.maintain.registry import Registry

if TYPE_CHECKING:
    from headwater.api.reading import Reading

AT_ONCE_MAX: Final = 2
EXAMPLES_MAX: Final = 100
ROWS: Final = 100
KEYS_MAX: Final = 200_000
"""Of a view without a warehouse, in the memory of who serves: less than a verb of its own may have."""
RUNS_MAX: Final = 1_000
POINT: Final = "An instant, an LSN, a position ERA:OFFSET, or now."

T = TypeVar("T")


class _Few:
    """So many at a time look back."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(AT_ONCE_MAX)

    async def __call__(self, look: Callable[[], T]) -> T:
        if self._places.locked():
            raise TooMany(f"{AT_ONCE_MAX} look back already", hint="ask again in a moment")
        async with self._places:
            return await asyncio.to_thread(look)


def router(reading: Reading) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["past"])
    place = Place(reading.deployment, Registry(reading.deployment.settings.views_state), Path())
    looked = _Few()

    @routes.get("/views/{view}/at")
    async def rows_at(
        request: Request,
        view: str,
        at: Annotated[str, Query(description=POINT)],
        limit: Annotated[int, Query(ge=1, le=ROWS_MAX, description="The first rows by key.")] = ROWS,
    ) -> Response:
        """The rows of a view as they were."""
        await reading.admit(request, "read")
        reading.shapes.store(view)  # 404 for a view that is not there
        return answered(rows_object(await looked(lambda: view_at(place, view, at, limit, KEYS_MAX))), {})

    @routes.get("/views/{view}/diff")
    async def differences(
        request: Request,
        view: str,
        from_: Annotated[str, Query(alias="from", description=POINT)],
        to: Annotated[str, Query(description=POINT)] = NOW,
        examples: Annotated[int, Query(ge=0, le=EXAMPLES_MAX)] = EXAMPLES,
    ) -> Response:
        """What was added, removed and changed between two points."""
        await reading.admit(request, "read")
        reading.shapes.store(view)  # 404 for a view that is not there
        return answered(diff_object(await looked(lambda: diff(place, view, from_, to, examples))), {})

    @routes.get("/views/{view}/{key:path}/story")
    async def told(
        request: Request,
        view: str,
        key: str,
        last: Annotated[int, Query(ge=1, le=1_000, description="The newest versions.")] = VERSIONS_MAX,
        causes: Annotated[bool, Query(description="With what caused each: takes the scope admin.")] = False,
    ) -> Response:
        """Every version of a row that is kept."""
        await reading.admit(request, "admin" if causes else "read")
        store = reading.shapes.store(view)
        words = [key] if len(store.key) == 1 and not key.startswith(f"{store.key[0]}=") else key.split(",")
        found = await looked(lambda: story(place, view, words, versions_max=last, with_causes=causes))
        return answered(story_object(found, with_causes=causes), {})

    @routes.get("/verify/history")
    async def verified(
        request: Request, view: str = "", last: Annotated[int, Query(ge=1, le=RUNS_MAX)] = 100
    ) -> Response:
        """What was verified, newest first, and what is known to be wrong now."""
        await reading.admit(request, "admin")
        runs = await asyncio.to_thread(verify_history, place, view, last)
        wrong = {name: each for name, each in history_of(place).wrong().items() if view in ("", name)}
        return answered({"runs": [run_object(run) for run in runs], "wrong": wrong_objects(wrong)}, {})

    return routes
