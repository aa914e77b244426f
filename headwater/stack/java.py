"""Finds a Java that the servers can run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cdc.errors import StackError

VERSION_MIN: Final = 17
TIMEOUT_S: Final = 30

_HINT: Final = (
    f"install a JRE of version {VERSION_MIN} or later (Debian: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17), or set stack.java to its `java`"
)


@dataclass(frozen=True, slots=True)
class Java:
    binary: Path
    home: Path
    version: int


def find(configured: str = "") -> Java:
    """The configured one, else JAVA_HOME's, else the first on PATH; refused when missing or too old."""
    binary = _candidate(configured)
    try:
        answer = subprocess.run(
            [binary, "-XshowSettings:properties", "-version"],
            capture_output=True, text=True, timeout=TIMEOUT_S, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise StackError(f"{binary} does not run", detail=str(error), hint=_HINT) from error
    return _judge(binary, answer.stdout + answer.stderr)


def _candidate(configured: str) -> Path:
    if configured:
        return Path(configured).expanduser()
    home = os.environ.get("JAVA_HOME")
    if home and Path(home, "bin", "java").exists():
        return Path(home, "bin", "java")
    found = shutil.which("java")
    if not found:
        raise StackError("Java was not found", detail="neither JAVA_HOME nor PATH has a `java`", hint=_HINT)
    return Path(found)


def _judge(binary: Path, settings: str) -> Java:
    properties = dict(re.findall(r"^\s+(java\.home|java\.specification\.version) = (.+?)\s*$", settings, re.M))
    text = properties.get("java.specification.version", "0").removeprefix("1.")
    version = int(text) if text.isdigit() else 0
    if version < VERSION_MIN:
        raise StackError(
            f"Java {version or 'of an unknown version'} is too old", detail=f"{binary} was found", hint=_HINT
        )
    return Java(binary, Path(properties["java.home"]), version)
