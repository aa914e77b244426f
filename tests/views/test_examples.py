"""The example views are what they promise: accepted over the demo's schema, and, kept from the real log while the demo
moves, equal to their SQL in Postgres."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from cdc.capture import Capture
from cdc.catalog_reader import load
from cdc.changelog import ChangeLog
from cdc.events import ChangeEvent, TableName
from cdc.position import Position
from cdc.transactions import Transaction
from headwater import demo
from headwater.demo import shop_actions
from headwater.demo.searches import SEARCHES
from tests.views.kept import Kept, planned
from tests.views.sql.tables import demo_catalog
from tests.waiting import eventually
from views.definition import SINKS

FOLDER = Path(__file__).parents[2] / "examples"
FILES = sorted(FOLDER.rglob("*.sql"))
MARKS = TableName("public", "marks")
POINTS, STEPS_PER_POINT = 4, 40

WATCHED = {str(wish["view"]) for wish in SEARCHES}
"""The demo's visitor has saved searches of these."""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_says_what_it_is_for_and_is_accepted(file: Path) -> None:
    text = file.read_text()
    (plan,) = planned(text, demo_catalog()).values()
    comment = text[: text.index("CREATE")].splitlines()
    assert 1 <= len(comment) <= 3
    assert all(line.startswith("-- ") for line in comment)
    assert plan.view.name == file.stem
    assert plan.view.key == plan.key, "an example names its key"
    assert plan.view.sinks == (SINKS if plan.view.name in WATCHED else SINKS[:-1])


def test_the_readme_names_every_example() -> None:
    readme = (FOLDER / "README.md").read_text()
    assert [file for file in FILES if f"({file.relative_to(FOLDER)})" not in readme] == []


class Tail:
    """The log from its beginning on, as far as a mark that was committed in Postgres."""

    def __init__(self, capture: Capture, connection: psycopg.Connection) -> None:
        self._log = ChangeLog(capture.kafka, capture.source)
        self._connection = connection
        self._next: Position | None = None
        self._marks = 0

    def transactions(self) -> list[Transaction]:
        """All that was committed since the last call."""
        self._marks += 1
        self._connection.execute("insert into marks values (%s)", [self._marks])
        taken = eventually(self._taken)
        self._next = Position(taken[-1].last.era, taken[-1].last.offset + 1)
        return taken

    def _taken(self) -> list[Transaction]:
        found: list[Transaction] = []
        for transaction in self._log.transactions(self._next or self._log.bounds()[0]):
            found.append(transaction)
            if any(_is_mark(event, self._marks) for event in transaction.events):
                return found
        raise AssertionError(f"mark {self._marks} is not in the log yet")


def _is_mark(event: object, number: int) -> bool:
    return isinstance(event, ChangeEvent) and event.table == MARKS and (event.after or {}).get("id") == number


def _events(transactions: list[Transaction]) -> list[ChangeEvent]:
    return [event for each in transactions for event in each.events if isinstance(event, ChangeEvent)]


@pytest.mark.stack
def test_examples_equal_their_sql_while_the_demo_moves(capture: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shop_actions, "HITS_KEPT_MAX", 100)
    with psycopg.connect(capture.postgres.conninfo(), autocommit=True) as connection:
        connection.execute("set timezone = 'UTC'")
        connection.execute("create table marks (id integer primary key)")
        demo.load(connection, demo.Size(60))
        capture.ensure()
        catalog = load(connection, demo.TABLES)
        tail = Tail(capture, connection)
        with Kept(planned("\n".join(file.read_text() for file in FILES), catalog), catalog, shards=2) as kept:
            kept.epoch(_events(tail.transactions()))
            kept.check(connection)
            with demo.Mover(capture.postgres, seed=5) as mover:
                moved = {name for _ in range(POINTS) for name in _move(mover, tail, kept, connection)}
            assert moved == kept.plans.keys(), "the demo moved every view"
            demo.load(connection, demo.Size(20), reset=True)
            kept.epoch(_events(tail.transactions()))
            kept.check(connection)


def _move(mover: demo.Mover, tail: Tail, kept: Kept, connection: psycopg.Connection) -> set[str]:
    """Some steps, in two epochs with a restart between them. Says which views changed."""
    for _ in range(STEPS_PER_POINT):
        mover.step()
    transactions = tail.transactions()
    half = len(transactions) // 2
    changed = kept.epoch(_events(transactions[:half]))
    kept.restart()
    more = kept.epoch(_events(transactions[half:]))
    kept.check(connection)
    return {name for name in kept.plans if changed[name] or more[name]}
