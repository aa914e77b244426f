"""`headwater plan`: what `apply` would do, what it costs, what is refused and why.

Exit code 0: nothing to do. 2: changes are pending. 1: some view is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.output import JsonOption, line, print_json, table

if TYPE_CHECKING:
    from headwater.views.declared import Refusal
    from headwater.views.place import Place
    from headwater.views.plan_views import Change, Sources, ViewsPlan

EXIT_REFUSED: Final = 1
EXIT_PENDING: Final = 2
STYLES: Final = {
    "new": "green",
    "changed": "yellow",
    "again": "yellow",
    "dropped": "red",
    "refused": "bold red",
    "unchanged": "dim",
}
FolderArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="FOLDER", show_default=False, help="Of .sql files, or one file; else views.folder, else examples."
    ),
]
OnlyOption = Annotated[list[str] | None, typer.Option("--only", metavar="NAME", help="These views only; repeatable.")]


def register(app: typer.Typer) -> None:
    app.command("plan")(plan)


def plan(folder: FolderArgument = None, only: OnlyOption = None, as_json: JsonOption = False) -> None:
    """Compare the views in .sql files with those that are kept. Exit code 2: changes pending; 1: refused."""
    from headwater.views.place import Place

    found, _ = made(Place.here(), folder, only or ())
    if as_json:
        print_json(plan_object(found))
    else:
        print_plan(found)
    if found.is_refused:
        raise typer.Exit(EXIT_REFUSED)
    if not found.is_empty:
        raise typer.Exit(EXIT_PENDING)


def made(
    place: Place, folder: Path | None, only: list[str] | tuple[()], rebuild: list[str] | tuple[()] = ()
) -> tuple[ViewsPlan, Sources]:
    """The plan, and the tables it was made against."""
    from cdc.postgres import connect, explained
    from headwater.views.apply import wanted_or_names
    from headwater.views.declared import read_files
    from headwater.views.plan_views import Sources, plan_views

    files = read_files(folder or place.folder)
    with connect(place.deployment.postgres) as conn, explained(conn):
        sources = Sources.read(conn, place.deployment.source, files)
    registry = place.registry
    found = plan_views(files, sources, wanted_or_names(registry), registry.state(), only=only, rebuild=rebuild)
    return found, sources


def print_plan(found: ViewsPlan) -> None:
    from headwater.views.plan_views import Action

    rows = [_row(change) for change in found.changes]
    table(("view", "action", "tier", "key", "tables", "cost"), rows, styles=STYLES)
    for change in found.changes:
        _print_more(change)
    counts = ((action.value, len(found.having(action))) for action in Action)
    line()
    line(", ".join(f"{count} {word}" for word, count in counts if count) or "no views")


def _row(change: Change) -> tuple[object, ...]:
    if change.declared is None or change.cost is None:
        return change.name, change.action, "", "", "", change.why
    key = ", ".join(change.declared.plan.key)
    inferred = "" if change.declared.plan.view.key else " (inferred)"
    tables = ", ".join(table.name if table.schema == "public" else str(table) for table in change.declared.tables)
    return change.name, change.action, change.cost.tier, f"{key}{inferred}", tables, change.cost.text


def _print_more(change: Change) -> None:
    from headwater.views.cost import shared_text

    if change.refusal is not None:
        _print_refusal(change.refusal)
        return
    if change.why and change.action != "dropped":
        line()
        line((f"{change.name}: ", "bold"), change.why)
    if change.diff:
        styles = {"+": "green", "-": "red", "@": "cyan"}
        for row in change.diff.splitlines():
            line((f"  {row}", styles.get(row[:1], "")))
    if change.shares and change.action != "unchanged":
        line((f"{change.name} ", "bold"), f"shares {shared_text(change.shares)}")


def _print_refusal(refusal: Refusal) -> None:
    error = refusal.error
    line()
    line((refusal.place, "bold"), ": ", (error.fact, "bold red"), f" [{error.reason}]")
    for row in error.detail.splitlines():
        line(f"  {row}")
    if error.hint:
        line(("  hint: ", "cyan"), error.hint)


def plan_object(found: ViewsPlan) -> dict[str, object]:
    return {
        "is_empty": found.is_empty,
        "is_refused": found.is_refused,
        "views": [_change_object(change) for change in found.changes],
    }


def _change_object(change: Change) -> dict[str, object]:
    told: dict[str, object] = {"view": change.name, "action": change.action, "why": change.why}
    if change.declared is not None and change.cost is not None:
        told |= {
            "file": change.declared.file,
            "key": change.declared.plan.key,
            "is_key_inferred": change.declared.plan.view.key is None,
            "tables": [str(table) for table in change.declared.tables],
            "tier": change.cost.tier,
            "cost": change.cost.text,
            "shares": change.shares,
            "diff": change.diff,
        }
    if change.refusal is not None:
        error = change.refusal.error
        told |= {
            "file": change.refusal.file,
            "line": error.line,
            "column": error.column,
            "reason": error.reason,
            "fact": error.fact,
            "detail": error.detail,
            "hint": error.hint,
        }
    return told
