"""Which Java is taken, and what is said when there is none that will do."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.errors import StackError
from headwater.stack import java

ANSWER = """#!/bin/sh
cat >&2 <<'END'
Property settings:
    java.home = {home}
    java.specification.version = {version}
    java.version = {version}.0.2

openjdk version "{version}.0.2"
END
exit {code}
"""


def fake(folder: Path, version: str, code: int = 0) -> Path:
    """A `java` that only tells its version."""
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(ANSWER.format(home=folder, version=version, code=code))
    binary.chmod(0o755)
    return binary


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)


def test_a_configured_one_comes_first_then_java_home_then_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured, home, path = (
        fake(tmp_path / name, version) for name, version in (("c", "21"), ("h", "18"), ("p", "17"))
    )
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    assert java.find() == java.Java(path, tmp_path / "p", 17)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "h"))
    assert java.find() == java.Java(home, tmp_path / "h", 18)
    assert java.find(str(configured)) == java.Java(configured, tmp_path / "c", 21)


def test_a_java_home_without_a_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fake(tmp_path / "p", "17")
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.find().binary == path


def test_none_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StackError, match="Java was not found") as raised:
        java.find()
    assert "install a JRE of version 17 or later" in raised.value.hint
    assert "stack.java" in raised.value.hint


@pytest.mark.parametrize(("version", "told"), [("11", "Java 11"), ("1.8", "Java 8"), ("16", "Java 16")])
def test_one_that_is_too_old(tmp_path: Path, version: str, told: str) -> None:
    binary = fake(tmp_path, version)
    with pytest.raises(StackError, match=f"{told} is too old") as raised:
        java.find(str(binary))
    assert str(binary) in raised.value.detail
    assert "apt-get install" in raised.value.hint


def test_one_that_tells_no_version(tmp_path: Path) -> None:
    binary = fake(tmp_path, "unknown")
    with pytest.raises(StackError, match="unknown version is too old"):
        java.find(str(binary))


def test_one_that_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="does not run"):
        java.find(str(fake(tmp_path, "17", code=1)))
    with pytest.raises(StackError, match="does not run"):
        java.find(str(tmp_path / "nothing"))
