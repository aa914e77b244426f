"""`headwater suppressions list|add|lift`: addresses to which nothing is sent any more, and to send there again."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.output import JsonOption, line, print_json, table
from headwater.cli.source import acting, connected_source

TargetOption = Annotated[str, typer.Option("--target", metavar="ADDRESS", help="Only this one.")]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="Addresses to which nothing is sent any more.")
    verbs.command("list")(list_suppressions)
    verbs.command("add")(add)
    verbs.command("lift")(lift)
    app.add_typer(verbs, name="suppressions")


def list_suppressions(target: TargetOption = "", as_json: JsonOption = False) -> None:
    """The newest first: which bounced, which want nothing any more."""
    from alerts import suppressions

    with connected_source() as conn:
        found = suppressions.listed(conn, target)
    if as_json:
        print_json({"suppressions": found})
        return
    rows = [
        (each.channel, each.target, each.reason, f"{each.created_at:%Y-%m-%d %H:%M}", each.detail) for each in found
    ]
    table(("channel", "address", "reason", "since", "detail"), rows)


def add(
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="email or webhook.")],
    target: Annotated[str, typer.Argument(metavar="ADDRESS")],
    reason: Annotated[
        str, typer.Option("--reason", metavar="REASON", help="bounced, complained, unsubscribed or gone.")
    ] = "bounced",
    detail: Annotated[str, typer.Option("--detail", metavar="TEXT", help="What the mail server said.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Send nothing there any more, whoever asks for it: a bounce that came later by mail, a complaint."""
    from alerts import suppressions

    with acting("suppressions add", channel=channel, reason=reason), connected_source() as conn:
        suppressions.suppress(conn, channel, target, reason, detail)
    if as_json:
        print_json({"suppressed": {"channel": channel, "target": target, "reason": reason}})
    else:
        line(f"nothing is sent to {target} any more")


def lift(
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="email or webhook.")],
    target: Annotated[str, typer.Argument(metavar="ADDRESS")],
    as_json: JsonOption = False,
) -> None:
    """Send there again what is told from now on."""
    from alerts import suppressions
    from cdc.errors import ConfigurationError

    with acting("suppressions lift", channel=channel), connected_source() as conn:
        if not suppressions.lift(conn, channel, target):
            raise ConfigurationError(f"{target} is not suppressed", hint="headwater suppressions list")
    if as_json:
        print_json({"lifted": {"channel": channel, "target": target}})
    else:
        line(f"{target} is told again")
