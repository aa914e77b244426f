"""`headwater alerts sweep` and `headwater alerts test`: are people told what they should be, and does it arrive?"""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.output import JsonOption, line, print_json
from headwater.cli.source import acting

EXAMPLES = 5


def sweep(
    views: Annotated[list[str] | None, typer.Argument(metavar="VIEW…", show_default=False)] = None,
    changes: Annotated[
        int, typer.Option("--changes", metavar="N", min=1, max=100_000, help="The newest so many of each view.")
    ] = 500,
    as_json: JsonOption = False,
) -> None:
    """Look at the newest changes once more and compare with what was told. Exit code 1 when it differs, or cannot be
    looked at."""
    from headwater.alert_sweeps import sweep as swept
    from headwater.deployment import Deployment
    from headwater.settings import load

    found, failed = swept(Deployment.resolve(load()), views or (), changes)
    if failed and len(views or ()) == 1:
        raise failed.popitem()[1]
    is_right = all(each.is_right for each in found) and not failed
    if as_json:
        print_json({"is_right": is_right, "views": found, "failed": {view: each.fact for view, each in failed.items()}})
    else:
        for each in found:
            verdict = "right" if each.is_right else f"{len(each.missed)} missed, {len(each.wrong)} wrong"
            looked_at = f"{each.changes:,} changes, {each.searches:,} searches, {each.expected:,} events to tell"
            line(f"{each.view}: {verdict}, {looked_at}")
            for kind, examples in (("missed", each.missed), ("wrong", each.wrong)):
                for told in examples[:EXAMPLES]:
                    line((f"  {kind}: search {told.subscription_id}, {told.key} {told.event}", "red"))
        for view, error in failed.items():
            line((f"{view}: not looked at, {error.fact}", "red"))
        if not found and not failed:
            line("no view has alerts; WITH (sinks = 'alerts') gives them to one")
    if not is_right:
        raise typer.Exit(1)


def send_test(
    id_: Annotated[int, typer.Argument(metavar="ID", help="As `headwater alerts list` shows it.")],
    as_json: JsonOption = False,
) -> None:
    """Send a message that says only that it is a test, by the way that this saved search's news goes."""
    from headwater.cli.alerts import open_searches

    searches = open_searches()
    with acting("alerts test", id=id_):
        delivery = searches.test(searches.owner_of(id_), id_)
    if as_json:
        print_json({"delivery": delivery})
    else:
        line(f"delivery {delivery} is on its way: headwater deliveries list")
