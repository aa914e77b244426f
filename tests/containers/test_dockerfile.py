"""The Dockerfile: pinned bases, locked contents, nothing run as root, nothing copied that is not there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from headwater import cli
from headwater.stack.artifacts import versions
from tests.containers.container_files import COMPOSE, DOCKERFILE, ROOT, read_dockerfile

STAGES = read_dockerfile()
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
IMAGES = ("connect", "headwater")
_REGISTRY_HOST = re.compile(r"(?:FROM|image:)\s+(?:[\w-]+\.[\w.-]+|localhost|[\w.-]+:\d+)/", re.IGNORECASE)


def copied(stage: str) -> list[str]:
    """What a stage takes from the repository."""
    lines = [copy.words for copy in STAGES[stage].all("COPY") if "--from" not in copy.rest]
    return [source for words in lines for source in words[:-1] if not source.startswith("--")]


def test_the_stages() -> None:
    assert list(STAGES) == ["python", "build", "debezium", "connect", "headwater"]


def test_bases_are_earlier_stages_or_pinned() -> None:
    seen: list[str] = []
    for stage in STAGES.values():
        assert stage.base in seen or re.search(r":\d+\.\d+\.\d+", stage.base), stage.base
        seen.append(stage.name)
    assert STAGES["connect"].base == f"apache/kafka:{versions()['kafka']}"


def test_the_python_is_one_that_headwater_supports() -> None:
    version = re.fullmatch(r"python:([\d.]+)-slim-bookworm", STAGES["python"].base)
    assert version
    assert version[1] in SpecifierSet(PYPROJECT["project"]["requires-python"])


@pytest.mark.parametrize("path", ["Dockerfile", "compose.yaml", "docs/containers.md"])
def test_images_come_from_the_default_registry(path: str) -> None:
    assert not _REGISTRY_HOST.search((ROOT / path).read_text())


def test_a_registry_host_would_be_seen() -> None:
    for line in ("FROM reg.example.com/kafka:1 AS a", "    image: localhost/x:1", "image: host:5000/x"):
        assert _REGISTRY_HOST.search(line)


def test_everything_copied_is_in_the_repository_and_sent_to_the_engine() -> None:
    sources = [source for stage in STAGES for source in copied(stage)]
    missing = [source for source in sources if not (ROOT / source).exists()]
    assert not missing
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    assert rules[1] == "*"
    assert sorted(rule[1:] for rule in rules if rule.startswith("!")) == sorted(sources)


def test_all_that_the_distribution_is_made_of_is_copied() -> None:
    wheel = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {*wheel["packages"], *wheel["force-include"], PYPROJECT["project"]["readme"]}
    needed |= {*PYPROJECT["project"]["license-files"], "pyproject.toml", "requirements.lock"}
    assert set(copied("build")) == needed


def test_copies_between_stages_name_earlier_ones() -> None:
    seen: list[str] = []
    for stage in STAGES.values():
        for copy in stage.all("COPY"):
            named = re.search(r"--from=(\S+)", copy.rest)
            assert named is None or named[1] in seen
        seen.append(stage.name)


def test_dependencies_are_checked_against_the_lock() -> None:
    installs = [run.rest for run in STAGES["build"].all("RUN") if "pip install" in run.rest]
    assert installs == [
        "pip install --require-hashes -r requirements.lock",
        "pip install --no-build-isolation --no-deps .",
    ]


def test_nothing_is_fetched_unchecked() -> None:
    text = DOCKERFILE.read_text()
    assert not re.search(r"^ADD |\b(curl|wget)\b", text, re.M)
    assert not re.search(r"https?://", text)


def test_the_verbs_that_the_build_uses_exist() -> None:
    known = {command.name for command in cli.make_app().registered_commands}
    used = {verb for stage in STAGES.values() for run in stage.all("RUN") for verb in _verbs(run.rest)}
    assert used == {"fetch"}
    assert used <= known


def _verbs(command: str) -> list[str]:
    return re.findall(r"(?:^|\s)headwater (\w+)", command) if "useradd" not in command else []


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_does_not_run_as_root(name: str) -> None:
    users = [user.rest for user in STAGES[name].all("USER")]
    assert len(users) == 1
    assert users[0] not in ("root", "0")
    after = STAGES[name].instructions[STAGES[name].instructions.index(STAGES[name].all("USER")[0]) :]
    assert not [instruction for instruction in after if instruction.word == "RUN"]


def test_the_entry_point_is_the_program_of_the_distribution() -> None:
    assert STAGES["headwater"].all("ENTRYPOINT")[0].rest == '["headwater"]'
    assert "headwater" in PYPROJECT["project"]["scripts"]
    environment = STAGES["python"].all("ENV")[0].rest
    venv = next(run.rest for run in STAGES["build"].all("RUN") if "venv" in run.rest).split()[-1]
    assert f"PATH={venv}/bin:$PATH" in environment
    copy = STAGES["headwater"].all("COPY")[0].words
    assert copy[1:] == [venv, venv], "a venv works at the path it was made at only"


def test_no_secret_and_no_path_of_a_machine() -> None:
    for file in (DOCKERFILE, COMPOSE, ROOT / "docs" / "containers.md"):
        text = file.read_text()
        assert not re.search(r"/home/|/Users/|/root\b|/work\b", text)
        assert str(Path.home()) not in text
