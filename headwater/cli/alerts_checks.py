"""`headwater alerts sweep` and `headwater alerts test`: are people told what they should be, and does it arrive?"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cdc.errors import ConfigurationError
from headwater.cli.output import JsonOption, line, print_json
from headwater.cli.source import acting

if TYPE_CHECKING:
    from headwater.sweep_file import SweepFile

EXAMPLES = 5


def sweep(
    views: Annotated[list[str] | None, typer.Argument(metavar="VIEW…", show_default=False)] = None,
    changes: Annotated[
        int, typer.Option("--changes", metavar="N", min=1, max=100_000, help="The newest so many of each view.")
    ] = 500,
    acknowledge: Annotated[
        bool, typer.Option("--acknowledge", help="Look at nothing: what was found in these views until now is known.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Look at the newest changes once more and compare with what was told. Exit code 1 when it differs, or cannot be
    looked at."""
    from headwater.alert_sweeps import sweep as swept
    from headwater.deployment import Deployment
    from headwater.settings import load

    if acknowledge:
        _acknowledge(views or [], as_json=as_json)
        return
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
        _show_held({each.view for each in found} | failed.keys())
        if not found and not failed:
            line("no view has alerts; WITH (sinks = 'alerts') gives them to one")
    if not is_right:
        raise typer.Exit(1)


def _acknowledge(views: list[str], *, as_json: bool) -> None:
    if not views:
        raise ConfigurationError("nothing is acknowledged", hint="headwater alerts sweep VIEW --acknowledge")
    with acting("alerts acknowledge", views=views):
        counts = {view: _sweep_file().acknowledge(view) for view in views}
    if as_json:
        print_json({"acknowledged": counts})
        return
    for view, count in counts.items():
        line(f"{view}: {count:,} {'difference is' if count == 1 else 'differences are'} told no more")


def _show_held(views: Collection[str]) -> None:
    """What is told in the status until a person has acknowledged it: mostly of earlier sweeps."""
    for view, each in sorted(_sweep_file().read().items()):
        if view in views and each.differences:
            line(f"{view}: found until now, and to be acknowledged by headwater alerts sweep {view} --acknowledge:")
            for held in each.differences[-EXAMPLES:]:
                at = datetime.fromtimestamp(held.found_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M")
                line((f"  {held.kind}: {held.text}, offset {held.version}, found {at} UTC", "red"))
            if (others := len(each.differences) - EXAMPLES) > 0:
                line(f"  and {others:,} more")


def _sweep_file() -> SweepFile:
    from headwater.settings import load
    from headwater.sweep_file import SweepFile

    return SweepFile(load().views_state)


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
