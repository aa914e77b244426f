"""`headwater console`: a link that signs this machine's browser in to the console, once."""

from __future__ import annotations

import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.output import JsonOption, line, print_json

if TYPE_CHECKING:
    from headwater.deployment import Deployment
    from headwater.settings import Settings


def register(app: typer.Typer) -> None:
    app.command("console")(console)


def console(
    opens: Annotated[bool, typer.Option("--open/--no-open", help="Open it in the browser.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Print (and open) a link that signs you in to the console. It works once, for 15 minutes."""
    from headwater.audit import audited, os_actor
    from headwater.pages.sessions import LINK_S, Sessions, address
    from headwater.settings import load

    settings = load()
    _require_up(settings.http.host, settings.http.port)
    with audited(_deployment(settings), "console link"):
        link = address(settings.http.url, Sessions(settings.data_folder).make_link(os_actor()))
    if as_json:
        print_json({"link": link, "expires_in_s": LINK_S})
        return
    typer.echo(link)
    if opens and not webbrowser.open(link):
        line("no browser was found here: open the link in one on this machine", stderr=True)


def _deployment(settings: Settings) -> Deployment:
    """Also while its servers are down, which is when people want to look: then the trace waits in its file."""
    from cdc.errors import StackError
    from headwater.deployment import Deployment
    from headwater.stack.state import StackState

    try:
        return Deployment.resolve(settings)
    except StackError:
        return Deployment.of(settings, StackState())


def _require_up(host: str, port: int) -> None:
    """Raises when nobody would take the link."""
    import socket

    from cdc.errors import StackError

    try:
        socket.create_connection((host, port), 2).close()
    except OSError as error:
        raise StackError(f"nobody answers at {host}:{port}", detail=str(error), hint="headwater up") from error
