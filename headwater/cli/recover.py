"""`headwater recover`: what is missing, what would be done about it and how long that takes; `--yes` does it.

Exit code 0: nothing is missing, or it was brought back. 2: something is, and was only looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.output import JsonOption, console, duration_text, line, print_json, table

if TYPE_CHECKING:
    from headwater.recovery import Recovery

EXIT_PENDING: Final = 2


def register(app: typer.Typer) -> None:
    app.command("recover")(recover)


def recover(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it, without asking.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until every view is live again.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Bring back what a lost slot, topic, log or source took away: says what it found and will do, then does it."""
    from headwater.audit import audited
    from headwater.recovery import Recoverer, require_log
    from headwater.status import Observer
    from headwater.views.place import Place

    place = Place.here()
    recoverer = Recoverer(place.deployment, place.registry)
    seen = Observer(place.deployment).look()
    plan = recoverer.planned(seen)
    require_log(plan, seen)
    if not as_json:
        _show(plan)
    elif not (yes and plan.is_needed):
        print_json({**_object(plan), "is_done": False})
    if not plan.is_needed:
        return
    if not yes:
        if as_json or not console().is_terminal:
            raise typer.Exit(EXIT_PENDING)
        typer.confirm("do that?", abort=True)
    report = (lambda _what: None) if as_json else line
    with audited(place.deployment, "recover", gaps=[str(gap) for gap in plan.gaps]):
        recoverer.carry_out(plan, report)
        if wait and (place.registry.wanted().views or plan.new_era):
            _follow(recoverer.wait(plan), quiet=as_json)
    left = recoverer.left(plan) if wait else []
    if as_json:
        print_json({**_object(plan), "is_done": wait, "left": left})
    else:
        line(
            "recovered" if wait else "begun: headwater status", "; headwater verify compares every view with its source"
        )
        for each in left:
            line(("left to do", "yellow"), f": {each}")


def _object(plan: Recovery) -> dict[str, object]:
    return {
        "is_needed": plan.is_needed,
        "gaps": plan.gaps,
        "stale": plan.stale,
        "steps": plan.steps,
        "seconds": round(plan.seconds, 1),
    }


def _show(plan: Recovery) -> None:
    for gap in plan.gaps:
        line(("gap", "bold red"), f" in era {gap.era}: {gap}")
    for view, why in plan.stale.items():
        line((view, "bold"), f" is stale: {why}")
    if not plan.is_needed:
        line("nothing to recover" if not plan.stale else "nothing to recover: what is stale catches up, or is paused")
        return
    rows = [(n, step.what, f"{step.rows:,}", duration_text(step.seconds)) for n, step in enumerate(plan.steps, 1)]
    table(("", "step", "rows", "about"), rows)
    line(f"about {duration_text(plan.seconds)} in all")


def _follow(told: object, *, quiet: bool) -> None:
    from collections.abc import Iterator

    assert isinstance(told, Iterator)
    out = console(stderr=True)
    if quiet or not out.is_terminal:
        for _ in told:
            pass
        return
    with out.status("waiting") as shown:
        for text in told:
            shown.update(text)
