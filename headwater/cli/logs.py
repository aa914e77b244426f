"""`headwater logs`: the log files of the embedded servers and of Headwater itself.

Reads from the end, so that a large file costs nothing; with --follow goes on across a rotation or a restart.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Final

import typer

from cdc.errors import ConfigurationError, StackError
from headwater.cli.output import JsonOption, line, print_json_line

COMPONENTS: Final = ("postgres", "kafka", "connect", "elasticsearch", "redis", "views", "api", "headwater")
BLOCK_BYTES: Final = 65_536
LINE_BYTES_MAX: Final = 1_000_000
"""A longer line comes out in pieces."""
LINES_MAX: Final = 1_000_000
LINES_OF_ONE: Final = 50
LINES_OF_EACH: Final = 10
POLL_S: Final = 0.2

Show = Callable[[str, str], None]


def register(app: typer.Typer) -> None:
    app.command("logs")(logs)


def logs(
    component: Annotated[str, typer.Argument(help=f"One of {', '.join(COMPONENTS)}; all when not given.")] = "",
    lines: Annotated[
        int | None,
        typer.Option("-n", "--lines", min=0, max=LINES_MAX, help="Lines of each; 50, or 10 when all are shown."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines are written, until Ctrl-C.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the logs of the embedded servers and of Headwater itself. JSON comes as one object a line."""
    from headwater.settings import load

    chosen = choose(component)
    files = _present(load().logs_folder, chosen, wait=follow)
    show = _show_json if as_json else _show_plain if len(chosen) == 1 else _show_named
    count = lines if lines is not None else LINES_OF_ONE if len(chosen) == 1 else LINES_OF_EACH
    tails = [Tail.open(name, file, count) for name, file in files]
    for tail in tails:
        for text in tail.first:
            show(tail.component, text)
    if follow:
        _follow(tails, show)


def choose(component: str) -> tuple[str, ...]:
    """The components meant; refused with the nearest name when there is none such."""
    if not component:
        return COMPONENTS
    if component in COMPONENTS:
        return (component,)
    close = get_close_matches(component, COMPONENTS, 1, 0.5)
    hint = f"did you mean headwater logs {close[0]}?" if close else "headwater logs --help"
    raise ConfigurationError(f"no component {component!r}", detail=f"there are {', '.join(COMPONENTS)}", hint=hint)


def _present(folder: Path, chosen: Sequence[str], *, wait: bool) -> list[tuple[str, Path]]:
    files = [(name, folder / f"{name}.log") for name in chosen]
    there = [(name, file) for name, file in files if file.is_file()]
    if not there:
        what = f"no log of {chosen[0]}" if len(chosen) == 1 else "no logs"
        raise StackError(
            what,
            detail=f"nothing in {folder}: an embedded server writes there once it was started",
            hint="headwater up",
        )
    # When following, a server that starts later is shown too.
    return files if wait else there


def _show_json(component: str, text: str) -> None:
    print_json_line({"component": component, "line": text})


def _show_plain(_component: str, text: str) -> None:
    typer.echo(text)


def _show_named(component: str, text: str) -> None:
    line((f"{component:<13} ", "cyan"), text)


def last_lines(file: Path, count: int) -> tuple[list[str], int]:
    """The last lines, and the place just after them. A last line without its end is left for later."""
    with file.open("rb") as handle:
        end = place = handle.seek(0, os.SEEK_END)
        blocks: list[bytes] = []
        ends = 0
        while place > 0 and ends <= count:
            start = max(0, place - BLOCK_BYTES)
            handle.seek(start)
            blocks.append(handle.read(place - start))
            ends += blocks[-1].count(b"\n")
            place = start
    whole, last_end, open_line = b"".join(reversed(blocks)).rpartition(b"\n")
    texts = whole.split(b"\n") if last_end else []
    return [_text(text) for text in texts[-count:]] if count else [], end - len(open_line)


def _text(line_bytes: bytes) -> str:
    return line_bytes.decode("utf-8", "replace").rstrip("\r")


@dataclass
class Tail:
    """One file that may grow, be cut, or be replaced by a new one."""

    component: str
    file: Path
    first: list[str]
    place: int
    inode: int | None

    @classmethod
    def open(cls, component: str, file: Path, count: int) -> Tail:
        if not file.is_file():
            return cls(component, file, [], 0, None)
        first, place = last_lines(file, count)
        return cls(component, file, first, place, file.stat().st_ino)

    def new_lines(self) -> Iterator[str]:
        """The whole lines since the last call; from the beginning when it is another file now."""
        try:
            state = self.file.stat()
        except FileNotFoundError:
            return
        if state.st_ino != self.inode or state.st_size < self.place:
            self.place, self.inode = 0, state.st_ino
        if state.st_size == self.place:
            return
        with self.file.open("rb") as handle:
            handle.seek(self.place)
            while True:
                text = handle.readline(LINE_BYTES_MAX)
                if not text.endswith(b"\n") and len(text) < LINE_BYTES_MAX:
                    return
                self.place = handle.tell()
                yield _text(text.rstrip(b"\n"))


def _follow(tails: Sequence[Tail], show: Show) -> None:
    """Until interrupted."""
    while True:
        for tail in tails:
            for text in tail.new_lines():
                show(tail.component, text)
        time.sleep(POLL_S)
