"""`headwater status`: one look at everything; exit code 1 when something fails."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.output import JsonOption, console, print_json


def register(app: typer.Typer) -> None:
    app.command("status")(status)


def status(
    as_json: JsonOption = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Again every second, until Ctrl-C.")] = False,
) -> None:
    """Servers, connector, slot and log: what runs, how far behind, what is wrong and what helps."""
    from headwater.deployment import Deployment
    from headwater.settings import load
    from headwater.status import Observer

    settings = load()
    observer = Observer(Deployment.resolve(settings))
    if watch and not as_json:
        _watch(observer, _page(settings.http.host, settings.http.port))
        return
    seen = observer.look()
    if as_json:
        print_json(seen)
    else:
        from headwater.service.terminal import picture

        console().print(picture(seen, _page(settings.http.host, settings.http.port)))
    if not seen.healthy:
        raise typer.Exit(1)


def _page(host: str, port: int) -> str:
    return f"http://{host}:{port}/"


def _watch(observer: object, page: str) -> None:
    import time

    from rich.live import Live

    from headwater.service.terminal import picture
    from headwater.status import Observer

    assert isinstance(observer, Observer)
    with Live(console=console(), auto_refresh=False) as live:
        while True:
            live.update(picture(observer.look(), page), refresh=True)
            time.sleep(1)
