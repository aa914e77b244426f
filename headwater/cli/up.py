"""`headwater up`: everything, from nothing, in the foreground or detached."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.output import console, line

if TYPE_CHECKING:
    from headwater.settings import Settings

DETACH_POLL_S: Final = 0.2
DETACH_S_MAX: Final = 900.0


def register(app: typer.Typer) -> None:
    app.command("up")(up)


def up(
    demo: Annotated[bool, typer.Option("--demo", help="Load the demo and keep it moving.")] = False,
    rate: Annotated[float, typer.Option("--rate", min=0.0, help="The demo's transactions a second; 0: still.")] = 5.0,
    listings: Annotated[int, typer.Option("--listings", min=1, help="The demo's size.")] = 2_000,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return when it is up; `headwater down` stops it.")
    ] = False,
) -> None:
    """Start the stack, migrate, capture; show it live until Ctrl-C."""
    from headwater.settings import load
    from headwater.stack.state import already_running, is_running

    settings = load()
    if is_running(settings.data_folder):
        notice = already_running(settings.data_folder)
        line(f"{notice.fact}; {notice.hint}")
        return
    if detach:
        words = [*(["--demo"] if demo else []), "--rate", str(rate), "--listings", str(listings)]
        _detached(settings, words)
        return
    from headwater.service.service import Run
    from headwater.service.steps import Wanted

    Run(settings, Wanted(demo=demo, listings=listings), rate, console())()


def _detached(settings: Settings, words: list[str]) -> None:
    """Starts ourselves again in a session of its own, and waits until that says it is ready, or dies."""
    from cdc.errors import StackError
    from headwater.service.ready import is_ready

    out = settings.logs_folder / "up.log"
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "headwater", "up", *words],
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    deadline = time.monotonic() + DETACH_S_MAX
    try:
        while not is_ready(settings.data_folder, child.pid):
            if child.poll() is not None or time.monotonic() > deadline:
                raise StackError("the stack did not come up", detail=_last_words(out), hint=f"see {out}")
            time.sleep(DETACH_POLL_S)
    except BaseException:  # Ctrl-C, too: what nobody waits for any more must not come up later
        child.terminate()
        raise
    url = settings.http.url
    line(f"up: {url} (process {child.pid}); headwater down stops it")
    if "--demo" in words:
        from headwater.service.service import pages_line

        line(pages_line(url))


def _last_words(file: Path, lines: int = 12) -> str:
    """The error with which it ended, else the last lines."""
    said = file.read_text(errors="replace").splitlines()
    errors = [number for number, text in enumerate(said) if text.startswith("error: ")]
    return "\n".join(said[errors[-1] :] if errors else said[-lines:])
