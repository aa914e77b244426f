"""compose.yaml and Dockerfile as values, read the way an engine reads them, without one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "compose.yaml"
DOCKERFILE = ROOT / "Dockerfile"
PASSWORDS = {
    "POSTGRES_PASSWORD": "pg0",
    "CAPTURE_PASSWORD": "capture0",
    "ELASTIC_PASSWORD": "elastic0",
    "REDIS_PASSWORD": "redis0",
}

_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?::([-?])([^}]*))?\})")


class Missing(Exception):
    """A variable that has to be set is not."""


def interpolated(text: str, environ: Mapping[str, str]) -> str:
    """`$$`, `${NAME}`, `${NAME:-default}` and `${NAME:?message}`, as compose replaces them."""

    def value(found: re.Match[str]) -> str:
        dollar, name, operator, word = found.groups()
        if dollar:
            return "$"
        if environ.get(name):
            return environ[name]
        if operator == "?":
            raise Missing(name)
        return word or ""

    return _VARIABLE.sub(value, text)


def read_compose(environ: Mapping[str, str] = PASSWORDS) -> dict[str, Any]:
    """The compose file with its variables replaced."""

    def walked(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: walked(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [walked(inner) for inner in value]
        return interpolated(value, environ) if isinstance(value, str) else value

    return dict(walked(yaml.safe_load(COMPOSE.read_text())))


def properties(text: str, separator: str = "=") -> dict[str, str]:
    """A properties file: one `name=value` a line."""
    lines = [line for line in text.splitlines() if line.strip()]
    return {name: value for name, _, value in (line.partition(separator) for line in lines)}


@dataclass(frozen=True)
class Instruction:
    word: str
    rest: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.rest)


@dataclass(frozen=True)
class BuildStage:
    name: str
    base: str
    instructions: tuple[Instruction, ...]

    def all(self, word: str) -> list[Instruction]:
        return [instruction for instruction in self.instructions if instruction.word == word]


def read_dockerfile() -> dict[str, BuildStage]:
    """The stages in order, by name."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if line.strip() and not line.startswith("#")]
    stages: dict[str, BuildStage] = {}
    for text in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, _, rest = text.strip().partition(" ")
        if word == "FROM":
            base, as_, name = rest.split()
            assert as_ == "AS", f"a stage without a name: {text}"
            stages[name] = BuildStage(name, base, ())
        else:
            last = list(stages.values())[-1]
            stages[last.name] = BuildStage(last.name, last.base, (*last.instructions, Instruction(word, rest.strip())))
    return stages
