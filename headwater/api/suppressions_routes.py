"""`/v1/suppressions`: addresses to which nothing is sent any more: to close one, to lift that. For administrators."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from alerts import suppressions
from headwater.api.problems import NotFound
from headwater.audit import audited, key_actor
from headwater.saved_searches import connected

if TYPE_CHECKING:
    from headwater.api.reading import Reading

NO_CONTENT: Final = 204


class Closing(BaseModel):
    channel: Literal["email", "webhook"] = "email"
    target: str = Field(min_length=1, max_length=2_000)
    reason: suppressions.Reason = "bounced"
    detail: str = ""


Target = Annotated[str, Query(description="Only this address.")]


def router(reading: Reading) -> APIRouter:
    routes = APIRouter(prefix="/v1/suppressions", tags=["alerts"])
    postgres = reading.deployment.postgres

    def read(target: str) -> list[suppressions.Suppression]:
        with connected(postgres) as conn:
            return suppressions.listed(conn, target)

    def close(authorization: str | None, asked: Closing) -> None:
        actor = key_actor(reading.access.key(authorization, "admin"))
        noted = audited(reading.deployment, "suppressions add", actor, channel=asked.channel, reason=asked.reason)
        with noted, connected(postgres) as conn:
            suppressions.suppress(conn, asked.channel, asked.target, asked.reason, asked.detail)

    def end(authorization: str | None, channel: str, target: str) -> None:
        actor = key_actor(reading.access.key(authorization, "admin"))
        asked = audited(reading.deployment, "suppressions lift", actor, channel=channel)
        with asked, connected(postgres) as conn:
            if not suppressions.lift(conn, channel, target):
                raise NotFound(f"{target} is not suppressed", hint="headwater suppressions list")

    @routes.get("")
    async def listed(request: Request, target: Target = "") -> Response:
        """The newest first."""
        await reading.admit(request, "admin")
        found = await asyncio.to_thread(read, target)
        return Response(msgspec.json.encode({"suppressions": found}), media_type="application/json")

    @routes.post("", status_code=NO_CONTENT)
    async def add(request: Request, asked: Closing) -> Response:
        """Nothing is sent there any more: for who takes in bounces and complaints that come later."""
        await reading.admit(request, "admin")
        await asyncio.to_thread(close, request.headers.get("Authorization"), asked)
        return Response(status_code=NO_CONTENT)

    @routes.delete("/{channel}/{target:path}", status_code=NO_CONTENT)
    async def lift(request: Request, channel: str, target: str) -> Response:
        """What is told from now on is sent there again."""
        await reading.admit(request, "admin")
        await asyncio.to_thread(end, request.headers.get("Authorization"), channel, target)
        return Response(status_code=NO_CONTENT)

    return routes
