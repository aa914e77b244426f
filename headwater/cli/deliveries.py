"""`headwater deliveries`: what is on its way to people, what could not be delivered and why, and to try it again."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from headwater.cli.output import JsonOption, line, print_json, table
from headwater.cli.source import acting, connected_source

UNWANTED_SHOWN: Final = 10


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="Notifications on their way to people.")
    verbs.command("list")(list_deliveries)
    verbs.command("replay")(replay)
    app.add_typer(verbs, name="deliveries")


def list_deliveries(
    state: Annotated[
        str, typer.Option("--state", metavar="STATE", help="pending, delivered, suppressed or dead.")
    ] = "",
    owner: Annotated[str, typer.Option("--owner", metavar="OWNER", help="Only of this owner.")] = "",
    most: Annotated[int, typer.Option("-n", metavar="N", min=1, max=1_000, help="How many at most.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """The newest first."""
    from alerts.delivery.listing import STATES, listed
    from cdc.errors import ConfigurationError
    from search.errors import nearest

    if state and state not in STATES:
        raise ConfigurationError(f"no state {state} of a delivery", hint=nearest(state, STATES))
    with connected_source() as conn:
        found = listed(conn, state, owner, most)
    if as_json:
        print_json({"deliveries": found})
        return
    if not found:
        line("no deliveries")
        return
    rows = [
        (each.id, f"{each.created_at:%Y-%m-%d %H:%M:%S}", each.owner, each.channel, each.target, each.state,
         each.attempts, each.disabled_reason or each.last_error)
        for each in found
    ]  # fmt: skip
    styles = {"delivered": "green", "dead": "red", "suppressed": "dim"}
    table(("id", "at", "owner", "channel", "to", "state", "attempts", "reason"), rows, styles=styles)


def replay(
    ids: Annotated[list[int] | None, typer.Argument(metavar="ID…", show_default=False)] = None,
    all_: Annotated[bool, typer.Option("--all", help="Everything that is dead.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Try dead deliveries again, with the same id; an endpoint that was switched off is switched on.

    Not those whose searches have ended meanwhile, or whose target wants nothing any more.
    """
    from alerts.delivery.listing import replay as try_again
    from cdc.errors import ConfigurationError

    if all_ == bool(ids):
        raise ConfigurationError(
            "name deliveries, or --all", detail="one of the two", hint="headwater deliveries list --state dead"
        )
    with acting("deliveries replay", ids=ids, all=all_), connected_source() as conn:
        found = try_again(conn, None if all_ else ids)
    missing = sorted(set(ids or ()) - set(found.ids) - set(found.unwanted))
    if missing:
        raise ConfigurationError(
            f"not dead: {', '.join(map(str, missing))}",
            detail=f"{len(found.ids)} others are tried again",
            hint="headwater deliveries list --state dead",
        )
    if as_json:
        print_json({"replayed": found.ids, "unwanted": found.unwanted})
        return
    line(f"{len(found.ids)} are tried again")
    for number, reason in list(found.unwanted.items())[:UNWANTED_SHOWN]:
        line(f"not {number}: {reason}")
    if len(found.unwanted) > UNWANTED_SHOWN:
        line(f"nor {len(found.unwanted) - UNWANTED_SHOWN} more that nobody wants any more")
