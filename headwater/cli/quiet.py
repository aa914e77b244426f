"""`headwater quiet begin|end|list`: nobody is told of what is committed meanwhile. For bulk loads and clean-ups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cdc.errors import ConfigurationError
from headwater.cli.output import JsonOption, line, print_json, table
from headwater.cli.source import acting, connected_source

if TYPE_CHECKING:
    from alerts.quiet import Stretch

ViewOption = Annotated[str, typer.Option("--view", metavar="VIEW", help="Only alerts of this view; else of all.")]
IdArgument = Annotated[int | None, typer.Argument(metavar="[ID]", help="As `headwater quiet list` shows it.")]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="For people.")]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="Stretches of time that no alert tells of.")
    verbs.command("begin")(begin)
    verbs.command("end")(end)
    verbs.command("list")(list_stretches)
    app.add_typer(verbs, name="quiet")


def begin(view: ViewOption = "", reason: ReasonOption = "", as_json: JsonOption = False) -> None:
    """From now on nobody is told, until `headwater quiet end`. What is committed before this returns is still told."""
    from alerts import quiet

    with acting("quiet begin", view=view, reason=reason), connected_source() as conn:
        _require(view)
        made = quiet.begin(conn, view or None, reason)
    if as_json:
        print_json(made)
    else:
        since = f"{made.view or 'all views'}: quiet since {made.began_at:%Y-%m-%d %H:%M:%SZ}"
        line(f"{since}, until: headwater quiet end {made.id}")


def _require(view: str) -> None:
    """Refuses a view that is not there. Where no views are known, such as on the machine of a load, nobody can tell."""
    from headwater.deployment import Deployment
    from headwater.settings import load
    from views.maintain.registry import Registry
    from views.refusals import nearest

    known = Registry(Deployment.resolve(load()).settings.views_state).wanted().views
    if view and known and view not in known:
        raise ConfigurationError(f"no view {view}", detail=nearest(view, known), hint="headwater views")


def end(id_: IdArgument = None, view: ViewOption = "", as_json: JsonOption = False) -> None:
    """Alerts tell again; what was committed meanwhile stays untold. ID is needed when several stretches are open."""
    from alerts import quiet

    with acting("quiet end", view=view, id=id_), connected_source() as conn:
        ended = quiet.end(conn, view or None, id_)
    if as_json:
        print_json({"ended": [ended]})
    else:
        line(f"{ended.view or 'all views'}: quiet from {ended.began_at:%H:%M:%S} to {ended.ended_at:%H:%M:%SZ}")


def list_stretches(as_json: JsonOption = False) -> None:
    """The last stretches, newest first."""
    from alerts import quiet

    with connected_source() as conn:
        found = quiet.listed(conn)
    if as_json:
        print_json({"quiet": found})
    else:
        table(("id", "view", "began", "ended", "reason"), [_row(stretch) for stretch in found])


def _row(stretch: Stretch) -> tuple[int, str, str, str, str]:
    ended = f"{stretch.ended_at:%Y-%m-%d %H:%M:%SZ}" if stretch.ended_at else "still quiet"
    return stretch.id, stretch.view or "all", f"{stretch.began_at:%Y-%m-%d %H:%M:%SZ}", ended, stretch.reason
