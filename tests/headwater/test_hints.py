"""Every command that an error, a page or the documentation tells somebody to run is one that there is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from typer.main import get_command

from headwater import cli
from headwater.cli import logs

ROOT: Final = Path(__file__).parents[2]
PRODUCT: Final = ("cdc", "views", "search", "alerts", "headwater")
COMMAND: Final = re.compile(r"(?<![\w./@:-])(?<!schema )headwater((?: -{0,2}[a-z{][\w{}-]*)+)")
FOUND_MIN: Final = 300
ROOT_COMMAND: Final[Any] = get_command(cli.app)


def texts(file: Path) -> Iterator[str]:
    """What a file tells: of code its strings, {} where a value goes."""
    if file.suffix != ".py":
        yield file.read_text(encoding="utf-8")
        return
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values)


def commands() -> Iterator[tuple[str, str]]:
    for file in (file for folder in PRODUCT for file in (ROOT / folder).rglob("*") if file.suffix in (".py", ".html")):
        for text in texts(file):
            yield from ((str(file.relative_to(ROOT)), found[1].strip()) for found in COMMAND.finditer(text))
    for file in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for text in texts(file):
            yield from ((str(file.relative_to(ROOT)), found[1].strip()) for found in COMMAND.finditer(text))


def is_there(command: str) -> bool:
    """Whether all of its verbs, and its options, are."""
    at = ROOT_COMMAND
    words = command.removeprefix("headwater ").split()  # `compose exec headwater headwater …`
    while words and hasattr(at, "commands") and not words[0].startswith(("-", "{")):
        at = at.commands.get(words.pop(0))
        if at is None:
            return False
    if at.name == "logs" and words and words[0].isalpha() and words[0] not in logs.COMPONENTS:
        return False
    known = {option for each in at.params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
    return hasattr(at, "commands") or all(word in known for word in words if re.fullmatch(r"--[a-z-]+", word))


def test_every_command_that_somebody_is_told_to_run_is_there() -> None:
    found = sorted(set(commands()))
    assert len(found) > FOUND_MIN
    assert [each for each in found if not is_there(each[1])] == []


@pytest.mark.parametrize("command", ["logs archive", "log show --table {}", "retentions", "keys lists", "logs kafka"])
def test_what_is_not_there_is_seen(command: str) -> None:
    assert is_there(command) == (command == "logs kafka")
