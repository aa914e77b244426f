"""`headwater story`: every version of one row, what changed in it, and the transactions that caused it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.diff import cut
from headwater.cli.output import JsonOption, line

if TYPE_CHECKING:
    from headwater.views.causes import Cause, CausingChange
    from headwater.views.story import ColumnChange, Story, StoryVersion

VERSIONS: Final = 20
_STYLES: Final = {"appeared": "green", "changed": "yellow", "gone": "red", "told": "dim"}


def register(app: typer.Typer) -> None:
    app.command("story")(story)


def story(
    view: Annotated[str, typer.Argument(metavar="VIEW")],
    key: Annotated[list[str], typer.Argument(metavar="KEY…", help="id=5 line=2, or the values in the key's order.")],
    last: Annotated[int, typer.Option("--last", metavar="N", min=1, help="The newest versions.")] = VERSIONS,
    causes: Annotated[bool, typer.Option(help="Read in the change log what caused each.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Every version of a row: when it came, what changed, and what caused it. Exit code 1 if there is none."""
    import msgspec

    from headwater.views.past_objects import story_object
    from headwater.views.place import Place
    from headwater.views.story import story as told

    found = told(Place.here(), view, key, versions_max=last, with_causes=causes)
    if as_json:
        content = msgspec.json.encode(story_object(found, with_causes=causes))
        typer.echo(msgspec.json.format(content, indent=2))
    else:
        _print(found)
    if not found.versions:
        raise typer.Exit(1)


def _print(found: Story) -> None:
    if not found.versions:
        line(f"nothing is kept of {found.key} in {found.view}")
    if found.left_out:
        line((f"{found.left_out:,} older versions: --last {found.left_out + len(found.versions)}", "dim"))
    for version in found.versions:
        if not version.follows:
            line(("… some versions in between are no longer kept", "yellow"))
        _print_version(version)
    for note in found.notes:
        line((note, "dim"), stderr=True)


def _print_version(version: StoryVersion) -> None:
    published = f", published {_delay(version)}" if version.published_at else ""
    line(
        (f"{_at(version.committed_at)}  ", "bold"),
        (version.kind.value, _STYLES[version.kind.value]),
        (f"  version {version.version}, up to commit {version.lsn} at {version.position}{published}", "dim"),
    )
    for change in version.changed:
        line(f"    {_change_text(change)}")
    for cause in version.causes.found:
        _print_cause(cause)
    if version.causes.note:
        line((f"  {version.causes.note}", "dim"))


def _print_cause(cause: Cause) -> None:
    name = f"transaction {cause.xid}" if cause.xid is not None else "a snapshot"
    doubt = "" if cause.role.value == "direct" else ", possibly"
    line(("  by ", "dim"), (name, "cyan"), (f"{doubt}, committed {_at(cause.committed_at)} at {cause.lsn}", "dim"))
    for change in cause.changes:
        line(f"      {_row_text(change)}", (f"  {change.position}", "dim"))
    if cause.changes_left_out:
        line((f"      and {cause.changes_left_out:,} more", "dim"))


def _row_text(change: CausingChange) -> str:
    key = " ".join(f"{name}={cut(value)}" for name, value in (change.key or {}).items())
    named = set(change.key or ())
    parts = [
        f"{name}: {cut(_shown(before))} → {cut(_shown(after))}"
        for name, before, after in change.changed
        if name not in named and change.op == "update"
    ]
    return f"{change.op} {change.table} {key}" + (f"  {', '.join(parts)}" if parts else "")


def _shown(value: object) -> object:
    return value if isinstance(value, str | int | float | bool | list | dict | None) else str(value)


def _change_text(change: ColumnChange) -> str:
    if change.before is None or change.after is None:
        return f"{change.name}: {cut(change.after if change.before is None else change.before)}"
    return f"{change.name}: {cut(change.before)} → {cut(change.after)}"


def _delay(version: StoryVersion) -> str:
    if version.published_at is None or version.committed_at is None:
        return _at(version.published_at)
    return f"{(version.published_at - version.committed_at).total_seconds() * 1000:,.0f} ms later"


def _at(at: datetime | None) -> str:
    return "unknown" if at is None else at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"
