"""How the history of verification reads, and what is known to be wrong: `headwater verify --history`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.cli.output import duration_text, line, print_json, table

if TYPE_CHECKING:
    from headwater.views.place import Place
    from headwater.views.verify_history import VerifyRun


def print_history(place: Place, views: list[str], last: int, *, as_json: bool) -> None:
    from headwater.views.verify_objects import at_text, run_object, wrong_objects
    from headwater.views.verify_view import history_of

    history = history_of(place)
    runs = [run for run in history.runs() if not views or run.view in views][:last]
    wrong = {view: places for view, places in history.wrong().items() if not views or view in views}
    if as_json:
        print_json({"runs": [run_object(run) for run in runs], "wrong": wrong_objects(wrong)})
        return
    rows = [
        (at_text(run.began_at_us), run.view, run.why.value, run.by, f"{run.rows:,}", _verdict(run), _took(run))
        for run in reversed(runs)
    ]
    table(("when", "view", "why", "by", "rows", "result", "took"), rows)
    for each in wrong_objects(wrong):
        line(("wrong now: ", "bold red"), f"{each['place']} of {each['view']}, {each['kind']} {each['key']}")


def _verdict(run: VerifyRun) -> str:
    several = f" ({run.runs} samples)" if run.runs > 1 else ""
    repaired = f", {len(run.repaired)} written again" if run.repaired else ""
    notes = "".join(f", {each.place}: {each.note}" for each in run.places if each.note)
    if run.is_equal:
        return f"equal{several}{repaired}{notes}"
    parts = [
        f"{each.place}: "
        + ", ".join(
            f"{count} {name}"
            for name, count in (
                ("missing", each.missing),
                ("extra", each.extra),
                ("different", each.different),
                ("not settled", each.unsettled),
            )
            if count
        )
        for each in run.places
        if not each.is_equal
    ]
    return f"DIFFERENT, {'; '.join(parts)}{repaired}{notes}"


def _took(run: VerifyRun) -> str:
    return duration_text(run.took_s)
