"""`headwater serve`: the API, the pages and the metrics, in the foreground. `headwater up` runs it as a child."""

from __future__ import annotations

import signal
import threading
from typing import Annotated

import typer

from headwater.cli.output import line


def register(app: typer.Typer) -> None:
    app.command("serve")(serve)


def serve(
    port: Annotated[int | None, typer.Option("--port", min=1, max=65_535, help="Instead of the settings'.")] = None,
) -> None:
    """Answer over HTTP until Ctrl-C: one more beside the one that `headwater up` runs, on a port of its own."""
    from headwater.deployment import Deployment
    from headwater.events_log import configure
    from headwater.serve import Service
    from headwater.settings import load

    settings = load()
    if port is not None:
        settings = settings.model_copy(update={"http": settings.http.model_copy(update={"port": port})})
    deployment = Deployment.resolve(settings)
    configure(settings.log)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: stop.set())
    line(f"answering at {settings.http.url}")
    Service(deployment, stop)()
