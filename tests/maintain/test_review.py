"""A changed view is built beside the one that is read, and shown only when somebody has looked at what would change."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from headwater.api.shapes import Shapes
from headwater.deployment import Deployment
from headwater.sinks import sink_kinds
from headwater.views.apply import decide
from tests.maintain.rig import Rig, limits
from tests.waiting import eventually
from views.maintain.registry import ViewState, ViewStatus, Wanted

pytestmark = [pytest.mark.stack, pytest.mark.spark]

BEFORE = "create materialized view dear with (sinks = 'cache') as select id, price from items where price >= 10"
AFTER = """
create materialized view dear with (sinks = 'cache') as
    select id, price + 1 as price, price as was from items where id < 16
"""


@pytest.fixture(scope="module")
def ddl() -> str:
    return """
        create table items (id integer primary key, price integer);
        insert into items select n, n from generate_series(1, 20) n;
    """


@pytest.fixture(scope="module")
def kept(rig: Rig, deployment: Deployment) -> Iterator[Rig]:
    rig.sinks = dict(sink_kinds(deployment))
    rig.want(BEFORE)
    with rig.kept(limits()):
        rig.settled(timeout_s=120)
        yield rig


def want_reviewed(rig: Rig, text: str) -> None:
    """As `headwater apply --review` writes it down."""
    before, definition = rig.registry.wanted().views["dear"], rig.definitions["dear"]
    rig.want(text)
    rig.definitions["dear"] = definition  # readers still use it
    wanted = rig.registry.wanted().views["dear"]
    rig.registry.want(Wanted({"dear": msgspec.structs.replace(wanted, is_reviewed=False, previous=before)}))


def ready(rig: Rig) -> ViewStatus:
    def is_ready() -> ViewStatus:
        status = rig.status("dear")
        assert status is not None
        assert status.state is ViewState.READY, status
        return status

    return eventually(is_ready, 60)


def test_one_that_is_rejected_leaves_what_is_read_as_it_is(kept: Rig) -> None:
    group, shape = kept.group("dear").spec.id, kept.group("dear").shape("dear", kept.capture.source)
    want_reviewed(kept, AFTER)
    status = ready(kept)
    assert (status.serving, status.group != group) == (group, True)
    assert Shapes(kept.registry, kept.capture.source).shape("dear") == shape, "what readers use"
    assert status.review is not None
    counts = status.review.added, status.review.removed, status.review.changed, status.review.equal
    assert counts == (9, 5, 6, 0), "1 to 9 come, 16 to 20 go, 10 to 15 get another price"
    kept.connection.execute("insert into items values (30, 30)")
    kept.sunk_equals_now("dear", "cache")
    decide(kept.registry, ["dear"], approve=False)

    def is_as_before() -> None:
        found = kept.status("dear")
        assert found is not None
        assert (found.state, found.group) == (ViewState.LIVE, group)

    eventually(is_as_before, 60)
    kept.connection.execute("insert into items values (31, 31)")
    kept.settled("dear")
    kept.sunk_equals("dear", "cache")


def test_one_that_is_approved_is_shown(kept: Rig) -> None:
    want_reviewed(kept, AFTER)
    ready(kept)
    definition = kept.registry.wanted().views["dear"]
    decide(kept.registry, ["dear"], approve=True)
    kept.define(definition.text)
    kept.is_live("dear")
    kept.connection.execute("update items set price = 500 where id = 3")
    kept.settled("dear")
    kept.sunk_equals("dear", "cache")
