"""What every verb prints with: JSON, tables, errors, human sizes and durations.

Content is never read as markup. Colour only on a terminal, and not when NO_COLOR is set. Away from a terminal a table
is plain aligned text that is neither wrapped nor cut, so that it can be piped.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cdc.errors import ConfigurationError, HeadwaterError
from headwater.plain import plain
from headwater.units import bytes_text, duration_text

if TYPE_CHECKING:
    from rich.console import Console

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
"""The one `--json`: every verb that reads takes it."""

__all__ = [
    "LEVEL_STYLES",
    "JsonOption",
    "ask",
    "bytes_text",
    "console",
    "duration_text",
    "line",
    "print_error",
    "print_json",
    "print_json_line",
    "table",
]

LEVEL_STYLES: Final[Mapping[str, str]] = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def console(*, stderr: bool = False) -> Console:
    """A rich console on the stream of this moment, made late: rich is slow to import."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, no_color=_no_color(), soft_wrap=True)


def _no_color() -> bool | None:
    """None leaves it to rich, which colours terminals only."""
    return True if os.environ.get("NO_COLOR") else None


def line(*parts: str | tuple[str, str], stderr: bool = False) -> None:
    """One line; a part is a text or (text, style)."""
    from rich.text import Text

    console(stderr=stderr).print(Text.assemble(*parts))


def print_json(value: object) -> None:
    """One JSON document for a program to read."""
    _write(json.dumps(plain(value), ensure_ascii=False, indent=2))


def print_json_line(value: object) -> None:
    """One JSON object a line, for streams."""
    _write(json.dumps(plain(value), ensure_ascii=False))


def _write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def ask(question: str, *, yes: bool, as_json: bool = False, default: bool = False) -> None:
    """Returns when it may be done: that was said with --yes, or is now. Raises where nobody can be asked, and Abort."""
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise ConfigurationError("this asks first, and nobody is there to answer", detail=question, hint="--yes")
    typer.confirm(question, default=default, abort=True)


def print_error(error: HeadwaterError, *, as_json: bool) -> None:
    """Fact, detail and hint: for people on standard error, for programs as an object on standard output."""
    if as_json:
        print_json({"error": {"fact": error.fact, "detail": error.detail, "hint": error.hint, **error.figures}})
        return
    line(("error: ", "bold red"), error.fact, stderr=True)
    for title, text in (("detail", error.detail), ("hint", error.hint)):
        for number, row in enumerate(text.splitlines()):
            start = f"{title}: " if number == 0 else " " * (len(title) + 2)
            line((start, "cyan" if title == "hint" else "dim"), row, stderr=True)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, styles: Mapping[str, str] | None = None) -> None:
    """Rows under their column names. A cell whose text is in `styles` is coloured so."""
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    out = console()
    if not out.is_terminal:
        _plain_table(columns, texts)
        return
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        drawn.add_column(Text(column), overflow="fold")
    for row in texts:
        drawn.add_row(*(Text(cell, style=(styles or {}).get(cell, "")) for cell in row))
    out.print(drawn, soft_wrap=False)


def _plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(cell) for cell in column) for column in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        _write("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
