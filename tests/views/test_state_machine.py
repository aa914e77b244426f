"""Any tables, any views, any transactions, in any epochs, whatever is stopped, repeated or cut off: after every epoch
each view is what its SQL gives in Postgres."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from cdc.catalog import Catalog
from cdc.errors import ViewRefused
from tests.views import drawn
from tests.views.kept import planned
from tests.views.lab import Lab

pytestmark = pytest.mark.stack

VIEWS, ROWS_FIRST = 4, 6
SEEDS = st.integers(0, 2**32)
MAY_BE_REFUSED = {"no-key", "numeric-without-scale"}
SETTINGS = settings(
    max_examples=25,
    stateful_step_count=10,
    phases=[Phase.explicit, Phase.generate],
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


class AnyViews(RuleBasedStateMachine):
    def __init__(self, connection: psycopg.Connection) -> None:
        super().__init__()
        self.connection = connection
        self.lab: Lab | None = None
        self.tables: tuple[drawn.DrawnTable, ...] = ()

    @initialize(data=st.data(), shards=st.integers(1, 3))
    def begin(self, data: st.DataObject, shards: int) -> None:
        self.tables = data.draw(drawn.tables())
        ddl = "\n".join(table.ddl for table in self.tables)
        note(ddl)
        self.lab = Lab(self.connection, ddl, shards=shards)
        drawn_views = [f"create materialized view v{n} as {data.draw(drawn.views(self.tables))};" for n in range(VIEWS)]
        wanted = [view for view in drawn_views if is_accepted(view, self.lab.recorder.catalog)]
        note("\n".join(wanted))
        self.lab.close()
        self.lab.watch("\n".join(wanted))
        random = Random(data.draw(SEEDS))
        self.lab.commit(*(insert(random, table) for table in self.tables for _ in range(ROWS_FIRST)))

    @rule(seed=SEEDS)
    def commit(self, seed: int) -> None:
        """One transaction, which may be rolled back. A key that is taken takes back its statement alone."""
        random = Random(seed)
        with self.connection.transaction(force_rollback=random.random() < 0.1):
            for _ in range(random.randint(1, 6)):
                statement = random.choice(STATEMENTS)(random, random.choice(self.tables))
                note(statement)
                with suppress(psycopg.errors.UniqueViolation), self.connection.transaction():
                    self.connection.execute(statement)

    @rule()
    def end_the_epoch(self) -> None:
        self._lab.epoch()

    @rule()
    def restart(self) -> None:
        self._lab.kept.restart()

    @rule()
    def repeat_the_last_epoch(self) -> None:
        self._lab.kept.repeat()

    @rule(stage=st.integers(0, 30), restarted=st.booleans())
    def cut_off_in_the_middle(self, stage: int, restarted: bool) -> None:
        events = self._lab.recorder.events()
        self._lab.kept.cut_off(events, stage)
        if restarted:
            self._lab.kept.restart()
        self._lab.take(events)

    @rule()
    def deliver_twice(self) -> None:
        events = self._lab.recorder.events()
        self._lab.take([*events, *events])
        self._lab.take(events)

    def teardown(self) -> None:
        if self.lab is not None:
            try:
                self.lab.epoch()
            finally:
                self.lab.close()

    @property
    def _lab(self) -> Lab:
        assert self.lab is not None
        return self.lab


def is_accepted(view: str, catalog: Catalog) -> bool:
    """What is refused is refused for a reason that the parts cannot know."""
    try:
        return bool(planned(view, catalog))
    except ViewRefused as refused:
        if refused.reason not in MAY_BE_REFUSED:
            raise
        return False


def insert(random: Random, table: drawn.DrawnTable) -> str:
    """One row or two, which are equal now and then: both stay where the table has no key."""
    rows = [", ".join(drawn.value(random, table, name) for name in table.columns) for _ in range(2)]
    chosen = random.choice([rows, rows[:1], [rows[0], rows[0]]])
    return f"insert into {table.name} values {', '.join(f'({row})' for row in chosen)} on conflict do nothing"


def update(random: Random, table: drawn.DrawnTable) -> str:
    free = [name for name in table.columns if name not in table.key]
    names = random.sample(free, random.randint(1, len(free)))
    values = ", ".join(f"{name} = {drawn.value(random, table, name)}" for name in names)
    return f"update {table.name} set {values}{_some(random)}"


def change_key(random: Random, table: drawn.DrawnTable) -> str:
    return f"update {table.name} set id = {random.choice(['id + 1', '7 - id', 'id - 1', 'id + 10'])}{_some(random)}"


def delete(random: Random, table: drawn.DrawnTable) -> str:
    return f"delete from {table.name}{_some(random)}"


def truncate(random: Random, table: drawn.DrawnTable) -> str:
    return f"truncate {table.name}"


def _some(random: Random) -> str:
    number = random.randint(1, drawn.IDS_MAX)
    return random.choice([f" where id = {number}", f" where id < {number}", f" where ref = {number}"] * 3 + [""])


STATEMENTS = (*(insert,) * 8, *(update,) * 8, *(change_key,) * 3, *(delete,) * 3, truncate)


def test_any_views_equal_their_sql(scratch: psycopg.Connection) -> None:
    run_state_machine_as_test(lambda: AnyViews(scratch), settings=SETTINGS)  # type: ignore[arg-type]
