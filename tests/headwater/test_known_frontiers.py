"""Where views stand, with a Kafka that answers, is slow, or is away: nobody who looks waits for it for long."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cdc.errors import LogError
from headwater.deployment import Deployment
from headwater.pages import known_frontiers
from headwater.pages.kept_facts import Held, KeptFacts
from headwater.pages.known_frontiers import Known, KnownFrontiers
from headwater.pages.rendering import environment
from headwater.settings import Settings
from headwater.stack.state import StackState
from headwater.views.kept import Frontiers
from tests.waiting import eventually
from views.maintain.publisher import Frontier

AWAY = "cannot reach Kafka"


class Asked:
    """A Kafka that says what the test wants, once it lets it."""

    def __init__(self) -> None:
        self.times, self.answers, self.is_away = 0, threading.Event(), False
        self.answers.set()

    def __call__(self) -> dict[str, Frontier]:
        self.times += 1
        assert self.answers.wait(30)
        if self.is_away:
            raise LogError(AWAY)
        return {"card": Frontier("card", 0, self.times, "0/1", None, 0, "g")}


@pytest.fixture
def kafka() -> Iterator[Asked]:
    asked = Asked()
    yield asked
    asked.answers.set()


def offset(known: Known) -> int:
    return known.frontiers["card"].offset


def test_it_is_asked_once_for_everybody_who_looks_meanwhile(kafka: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_frontiers, "KNOWN_S", 3_600.0)
    known = KnownFrontiers(kafka)
    kafka.answers.clear()
    with ThreadPoolExecutor(8) as people:
        looks = [people.submit(known.look) for _ in range(8)]
        eventually(lambda: kafka.times == 1)
        kafka.answers.set()
        assert [offset(look.result(30)) for look in looks] == [1] * 8
    assert (kafka.times, known.look().problem) == (1, "")


def test_who_looks_waits_for_a_bounded_time_together(kafka: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_frontiers, "WAIT_S_MAX", 0.2)
    known = KnownFrontiers(kafka)
    kafka.answers.clear()
    began = time.monotonic()
    looks = [known.look() for _ in range(50)]
    assert time.monotonic() - began < 5, "0.2 s in all, not each"
    assert {(look.problem, look.at) for look in looks} == {("Kafka has not answered yet", None)}


def test_what_was_known_is_shown_and_a_failure_remembered(kafka: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_frontiers, "KNOWN_S", 0.0)
    known = KnownFrontiers(kafka)
    before = known.look()
    assert before.problem == ""
    kafka.is_away = True
    after = known.look()
    assert (after.problem, after.at, offset(after)) == (AWAY, before.at, 1)
    kafka.answers.clear()
    monkeypatch.setattr(known_frontiers, "WAIT_S_MAX", 3_600.0)
    assert [known.look() for _ in range(9)] == [after] * 9
    assert kafka.times == 2, "it is not asked again at once"
    known._ask_at = 0.0  # half a minute later
    assert known.look() == after, "nobody waits to hear whether it is still away"
    kafka.is_away = False
    kafka.answers.set()
    eventually(lambda: known.look().problem == "")
    assert offset(known.look()) >= 3


def test_an_error_of_another_kind_does_not_end_the_asking(kafka: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_frontiers, "FAILED_S", 0.0)
    monkeypatch.setattr(threading, "excepthook", lambda args: None)

    def fails() -> dict[str, Frontier]:
        if kafka.times == 0:
            kafka.times += 1
            raise ValueError("no frontier")
        return kafka()

    known = KnownFrontiers(fails)
    assert known.look().problem
    eventually(lambda: known.look().problem == "")


def test_a_dead_kafka_holds_no_page_for_each_of_its_views(
    kafka: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_frontiers, "WAIT_S_MAX", 0.2)
    monkeypatch.setattr(Frontiers, "look", lambda self: kafka())
    kafka.answers.clear()
    facts = KeptFacts(Deployment.of(Settings.model_validate({"data_folder": str(tmp_path)}), StackState()))
    began = time.monotonic()
    assert [facts.held(f"view_{number}") for number in range(8)] == [Held()] * 8
    late = facts.late()
    assert time.monotonic() - began < 5
    assert late is not None
    line = environment().from_string('{% from "parts.html" import late_line %}{{ late_line(late) }}')
    assert "Rows and sizes are not known yet. Kafka has not answered yet." in line.render(late=late)
