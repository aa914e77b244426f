"""`headwater deadletters list|show|replay|drop`: changes that a sink would not take, with key, row and reason."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.output import JsonOption, ask, line, print_json, table

if TYPE_CHECKING:
    from headwater.views.place import Place
    from views.sinks.letters import DeadLetter

ERROR_SHOWN_MAX = 160

ViewOption = Annotated[str, typer.Option("--view", metavar="VIEW", help="Only of this view.")]
SinkOption = Annotated[str, typer.Option("--sink", metavar="SINK", help="Only of this sink.")]
AllOption = Annotated[bool, typer.Option("--all", help="Every open letter.")]
IdsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID…", show_default=False, help="As `list` shows it; its beginning will do."),
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Changes that a sink would not take.", no_args_is_help=True)
    group.command("list")(list_letters)
    group.command("show")(show)
    group.command("replay")(replay)
    group.command("drop")(drop)
    group.command("log")(of_the_log)
    app.add_typer(group, name="deadletters")


def list_letters(view: ViewOption = "", sink: SinkOption = "", as_json: JsonOption = False) -> None:
    """What was refused and is open still, oldest first. It holds just its key; a newer row that is taken closes it."""
    from headwater.dead_letters import incomplete

    _place, found = _found(view, sink, ())
    if as_json:
        counts = [
            {"view": at[0], "sink": at[1], "generation": at[2], "keys": keys} for at, keys in incomplete(found).items()
        ]
        print_json({"deadletters": [_object(each) for each in found], "incomplete": counts})
        return
    if not found:
        line("no dead letters")
        return
    columns = ("id", "at", "view", "sink", "key", "version", "error")
    rows = [
        (each.id.short, _at(each.at_us), each.view, each.sink, each.key, each.version, _short(each.error))
        for each in found
    ]
    table(columns, rows)
    for (of, place, generation), keys in incomplete(found).items():
        line((f"{place} of {of} (generation {generation}): incomplete: {keys:,} keys", "yellow"))


def show(
    id_: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it; its beginning will do.")],
    as_json: JsonOption = False,
) -> None:
    """One letter with its whole row and the whole reason."""
    _place, found = _found("", "", (id_,))
    if as_json:
        print_json({"deadletters": [_object(each) for each in found]})
        return
    for each in found:
        for name, value in _object(each).items():
            line((f"{name}: ", "cyan"), "" if value is None else str(value))


def replay(
    ids: IdsArgument = None,
    view: ViewOption = "",
    sink: SinkOption = "",
    all_: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the refused changes to their place again; newer wins. Exit code 1 when one is refused again."""
    from headwater import dead_letters
    from headwater.audit import audited

    _require_choice(ids, view, sink, all_=all_)
    place, found = _found(view, sink, ids or ())
    with audited(place.deployment, "deadletters replay", view=view, sink=sink, ids=_ids(found)) as action:
        done = dead_letters.replay(place, found)
        action.result = {each.letter.id.short: each.outcome for each in done}
    if as_json:
        told = [{"id": each.letter.id.short, "outcome": each.outcome, "reason": each.reason} for each in done]
        print_json({"replayed": told})
    elif not done:
        line("no dead letters")
    else:
        rows = [
            (e.letter.id.short, e.letter.view, e.letter.sink, e.letter.key, e.outcome, _short(e.reason)) for e in done
        ]
        styles = {dead_letters.TAKEN: "green", dead_letters.FAILED: "bold red"}
        styles |= dict.fromkeys((dead_letters.REFUSED, dead_letters.NEWER), "yellow")
        table(("id", "view", "sink", "key", "outcome", "reason"), rows, styles=styles)
    if any(each.outcome != dead_letters.TAKEN for each in done):
        raise typer.Exit(1)


def drop(
    ids: IdsArgument = None,
    view: ViewOption = "",
    sink: SinkOption = "",
    all_: AllOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Close letters and write nothing: the place keeps what it has of their keys, which may be old or nothing.
    Exit code 1 when one is left, because a newer row of its key was refused meanwhile."""
    from headwater import dead_letters
    from headwater.audit import audited

    _require_choice(ids, view, sink, all_=all_)
    place, found = _found(view, sink, ids or ())
    if found:
        ask(f"drop {len(found)} letters, and leave their keys as they are?", yes=yes, as_json=as_json)
    with audited(place.deployment, "deadletters drop", view=view, sink=sink, ids=_ids(found)) as action:
        dropped = dead_letters.drop(place, found)
        left = [each for each in found if each not in dropped]
        action.result = {"left": _ids(left)} if left else None
    if as_json:
        print_json({"dropped": _ids(dropped), "left": _ids(left)})
    else:
        line(f"{len(dropped)} dropped")
        if left:
            line((f"{len(left)} left: closed, or about a newer row, by now; headwater deadletters list", "yellow"))
    if left:
        raise typer.Exit(1)


def of_the_log(
    last: Annotated[int, typer.Option("--last", metavar="N", min=1, help="How many records to look at.")] = 100_000,
    as_json: JsonOption = False,
) -> None:
    """Records of the change log itself that cannot be read. A view that meets one stops there, and says so."""
    from cdc.changelog import ChangeLog
    from cdc.envelope import parse
    from cdc.events import DeadLetter
    from headwater.views.place import Place

    deployment = Place.here().deployment
    log = ChangeLog(deployment.kafka, deployment.source)
    low, high = log.bounds()
    entries = (parse(record) for record in log.read(log.position(max(low.offset, high.offset - last))))
    found = [entry for entry in entries if isinstance(entry, DeadLetter)]
    if as_json:
        print_json({"deadletters": found})
    elif not found:
        line(f"every one of the last {min(last, high.offset - low.offset):,} records can be read")
    else:
        table(("position", "error"), [(each.position, _short(each.error)) for each in found])


def _found(view: str, sink: str, ids: Sequence[str]) -> tuple[Place, list[DeadLetter]]:
    from headwater.dead_letters import Chosen, open_letters
    from headwater.views.place import Place

    place = Place.here()
    return place, open_letters(place, Chosen(view, sink, tuple(ids)))


def _require_choice(ids: list[str] | None, view: str, sink: str, *, all_: bool) -> None:
    from cdc.errors import ConfigurationError

    if not (ids or view or sink or all_):
        raise ConfigurationError(
            "name letters, a view, a sink, or --all", detail="nothing was named", hint="headwater deadletters list"
        )


def _ids(letters: Sequence[DeadLetter]) -> list[str]:
    return [each.id.short for each in letters]


def _object(letter: DeadLetter) -> dict[str, object]:
    return {
        "id": letter.id.short,
        "view": letter.view,
        "sink": letter.sink,
        "generation": letter.generation,
        "key": letter.key,
        "version": letter.version,
        "at": _at(letter.at_us),
        "error": letter.error,
        "row": letter.row,
        "is_cut": letter.is_cut,
    }


def _short(text: str) -> str:
    one = " ".join(text.split())
    return one if len(one) <= ERROR_SHOWN_MAX else f"{one[: ERROR_SHOWN_MAX - 1]}…"


def _at(at_us: int) -> str:
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%Y-%m-%dT%H:%M:%SZ}"
