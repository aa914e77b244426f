"""What the console asks before it takes something away. A script asks in place, and adds to the form that it did;
of a form without that, made where no script runs, the server asks on a page of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fastapi import Request, Response

from headwater.pages.forms import Form
from headwater.pages.gate import TOKEN_FIELD

if TYPE_CHECKING:
    from headwater.pages.console import Console
    from headwater.pages.sessions import Session

FIELD: Final = "asked"
"""Added by static/console.js, and by the page that asks."""
YES: Final = "yes"

CAPTURE: Final = {
    "pause": "Stop reading? Postgres keeps its WAL until capture goes on, up to its cap.",
    "restart": "Stop the connector and let it go on?",
}
LETTERS: Final = {"drop": "Drop the chosen letters, and leave their keys as they are?"}


def of_view(do: str, view: str, sink: str = "", number: str | int = "", others: Sequence[str] = ()) -> str:
    """Empty for what takes nothing away."""
    if do == "pause":
        return _pause(view, sink, others)
    generation = f" to generation {number}" if number else ""
    of_sink = f" ({sink})" if sink else ""
    return {
        "switch": f"Switch the readers of {view}{of_sink}{generation or ' to what was verified'}?",
        "rollback": f"Send the readers of {view}{of_sink} back{generation}?",
        "restore": f"Give the readers of {view} the definition back that they left?",
        "cancel": f"Give the rebuild of {view}{of_sink} up? Readers keep what they have.",
        "retire": f"Remove generation {number} of the {sink}? There is no way back to it.",
        "approve": f"Show the readers of {view} the new rows?",
        "reject": f"Keep {view} as its readers see it, and let go of what was built?",
    }.get(do, "")


def _pause(view: str, sink: str, others: Sequence[str]) -> str:
    if sink:
        means = "Nobody is told of a match until it goes on" if sink == "alerts" else "What readers see there grows old"
        return f"Stop feeding the {sink} of {view}? {means}."
    together = "They stand at one position, and are paused together. " if others else ""
    return (
        f"Stop keeping {', '.join([view, *others])} and all their sinks? {together}"
        "What readers see grows old until it is resumed."
    )


def unasked(
    console: Console, request: Request, session: Session, form: Form, question: str, back: str
) -> Response | None:
    """The page that asks, with all that the form said; None where nothing is to be asked, or was."""
    if not question or form.value(FIELD) == YES:
        return None
    fields = [(name, value) for name, value in form.items() if name not in (TOKEN_FIELD, FIELD)]
    return console.page(
        request, "console/question.html", session, question=question, fields=fields, asked=(FIELD, YES), back=back
    )
