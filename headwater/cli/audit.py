"""`headwater audit`: who did what, when, and how it ended."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from headwater.cli.output import JsonOption, duration_text, line, print_json, table

STYLES = {"done": "green", "failed": "bold red", "unfinished": "yellow"}


def register(app: typer.Typer) -> None:
    app.command("audit")(audit)


def audit(
    since: Annotated[
        str,
        typer.Option("--since", metavar="TIME", help="2026-11-17, 2026-11-17T09:00Z, or how long ago: 12h, 30d."),
    ] = "",
    verb: Annotated[str, typer.Option("--verb", metavar="VERB", help="Only this: rebuild, keys, keys create…")] = "",
    actor: Annotated[str, typer.Option("--actor", metavar="TEXT", help="Only whose name holds this.")] = "",
    most: Annotated[int, typer.Option("-n", metavar="N", min=1, max=100_000, help="How many at most.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Administrative actions, newest first. Unfinished: it still runs, or its process was killed."""
    from headwater.audit_store import listed
    from headwater.deployment import Deployment
    from headwater.settings import load

    found = listed(Deployment.resolve(load()), parse_since(since, datetime.now(UTC)), verb, actor, most)
    if as_json:
        print_json({"actions": found})
        return
    if not found:
        line("nothing was done")
        return
    rows = [
        (f"{each.began_at:%Y-%m-%d %H:%M:%SZ}", each.actor, each.verb, _words(each.arguments), each.outcome,
         duration_text((each.ended_at - each.began_at).total_seconds()) if each.ended_at else "", each.reason)
        for each in found
    ]  # fmt: skip
    table(("at", "who", "what", "with", "outcome", "took", "reason"), rows, styles=STYLES)


def parse_since(text: str, now: datetime) -> datetime | None:
    """`12h`, `30d` before now, or an instant; without a zone it is UTC."""
    from cdc.errors import ConfigurationError
    from headwater.cli.keys import parse_time

    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    except ValueError:
        pass
    try:
        return now - parse_time(text)
    except ConfigurationError:
        raise ConfigurationError(
            f"not a time: {text!r}", detail="an instant, or how long ago", hint="headwater audit --since 12h"
        ) from None


def _words(arguments: dict[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in arguments.items())
