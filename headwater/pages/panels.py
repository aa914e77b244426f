"""The parts of a page that move: each a template that is rendered again at its own pace, for as long as somebody looks.

The page is made of the same templates, so that it is whole before any script runs and says the same after.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from headwater.pages.rendering import environment

TICK_S: Final = 0.5
BEAT_S: Final = 15.0
"""A comment now and then: proxies end streams that say nothing."""
RETRY_MS: Final = 2_000

Values = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Panel:
    name: str
    template: str
    values: Values
    every_s: float = 1.0

    def html(self, root: str) -> str:
        return environment().get_template(self.template).render({"root": root, **self.values()})


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
) -> AsyncIterator[bytes]:
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
