"""`headwater maintain`: keep the views, in the foreground. `headwater up` runs it as a child."""

from __future__ import annotations

import signal
import threading

import typer

from headwater.cli.output import line


def register(app: typer.Typer) -> None:
    app.command("maintain")(maintain)


def maintain() -> None:
    """Keep the applied views up to date until Ctrl-C."""
    from headwater.deployment import Deployment
    from headwater.events_log import configure
    from headwater.maintain import Maintenance
    from headwater.precedence import give_way
    from headwater.settings import load

    settings = load()
    deployment = Deployment.resolve(settings)
    configure(settings.log)
    give_way(settings.views.niceness, settings.views.processors_left)
    stop, begun = threading.Event(), threading.Event()

    def asked(_number: int, _frame: object) -> None:
        """Before anything has begun there is nothing to end in order: Spark takes its time to start."""
        if not begun.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, asked)
    line(f"keeping the views of {deployment.source.name}")
    Maintenance(deployment, stop, begun)()
