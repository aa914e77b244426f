"""The parts of a page that move: each a template that is rendered again at its own pace, for as long as somebody looks.

The page is made of the same panels, so that it is whole before any script runs and says the same after. One that
cannot be shown says why in its place; the others go on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from cdc.errors import HeadwaterError
from headwater.events_log import get_log
from headwater.pages.rendering import environment

TICK_S: Final = 0.5
BEAT_S: Final = 15.0
"""A comment now and then: proxies end streams that say nothing."""
RETRY_MS: Final = 2_000
FAILURES_KNOWN_MAX: Final = 100

FAILED: Final = "panels/failed.html"

Values = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Panel:
    name: str
    template: str
    values: Values
    every_s: float = 1.0

    def html(self, root: str) -> str:
        """What it shows or, of whatever goes wrong with it, what that is."""
        try:
            return _rendered(self.template, {"root": root, **self.values()})
        except HeadwaterError as error:
            told = error
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            _log(self.name, text)
            told = HeadwaterError("this part of the page cannot be shown", detail=text, hint="headwater logs api")
        return _rendered(FAILED, {"fact": told.fact, "detail": told.detail, "hint": told.hint})


def _rendered(template: str, values: Mapping[str, Any]) -> str:
    return environment().get_template(template).render(values)


@lru_cache(FAILURES_KNOWN_MAX)
def _log(panel: str, failure: str) -> None:
    """Each failure once, not at every look, with where it came from."""
    get_log("console").warning("panel.failed", panel=panel, failure=failure, exc_info=True)


@dataclass
class _Shown:
    panel: Panel
    html: str | None = None
    next_at: float = 0.0


def event(name: str, data: object, id_: str = "") -> bytes:
    """One server-sent event; JSON has no line ends of its own."""
    head = f"id: {id_}\n" if id_ else ""
    return f"{head}event: {name}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"


async def moving(
    panels: list[Panel], root: str, more: Callable[[], list[bytes]], go_on: Callable[[], bool]
) -> AsyncGenerator[bytes, None]:
    """Each panel when it has changed, what `more` gives, and a beat when there is nothing to say."""
    shown = [_Shown(panel) for panel in panels]
    said_at = time.monotonic()
    yield f"retry: {RETRY_MS}\n\n".encode()
    while go_on():
        told = list(more())
        for each in shown:
            if time.monotonic() >= each.next_at:
                html = await asyncio.to_thread(each.panel.html, root)
                each.next_at = time.monotonic() + each.panel.every_s
                if html != each.html:
                    each.html = html
                    told.append(event("panel", {"name": each.panel.name, "html": html}))
        if told:
            said_at = time.monotonic()
            for text in told:
                yield text
        elif time.monotonic() - said_at > BEAT_S:
            said_at = time.monotonic()
            yield b": still here\n\n"
        await asyncio.sleep(TICK_S)
