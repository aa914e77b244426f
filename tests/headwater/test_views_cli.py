"""`plan`, `apply` and `explain` without servers: what is decided, what is printed, what is written down."""

from __future__ import annotations

import io
import json
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from cdc.addresses import Source
from cdc.catalog import Catalog
from cdc.errors import ConfigurationError, ViewError
from cdc.events import TableName
from headwater import cli
from headwater.deployment import Deployment
from headwater.settings import Settings
from headwater.stack.state import StackState
from headwater.views import apply as applying
from headwater.views.apply import Applied, apply_again, changed_tables, known_skips, next_wanted, read_anew, wait
from headwater.views.cost import Tier, cost_of
from headwater.views.declared import SqlFile, is_same, read_files
from headwater.views.place import Place, sql_folder
from headwater.views.plan_views import Action, Sources, ViewsPlan, plan_views
from tests.headwater.typed import Typed
from tests.views.sql.tables import demo_catalog
from views.definition import parse
from views.maintain.group import GroupSpec
from views.maintain.registry import GroupStatus, Registry, State, ViewState, ViewStatus, Wanted, WantedView
from views.sql import plan_view

CARD = """-- A card.
CREATE MATERIALIZED VIEW card AS
SELECT l.id, l.title, a.name FROM listings l JOIN agents a ON a.id = l.agent_id;
"""
CITIES = "CREATE MATERIALIZED VIEW cities AS SELECT city, count(*) AS n FROM listings GROUP BY city;\n"
ALBUM = """CREATE MATERIALIZED VIEW album AS
SELECT listing_id, json_agg(url ORDER BY position) AS urls FROM photos GROUP BY listing_id;
"""
TEXTS = {"card": CARD, "cities": CITIES}
WRONG = "CREATE MATERIALIZED VIEW wrong AS\nSELECT id, pric FROM listings;\n"


def rows_of(catalog: Catalog) -> tuple[dict[str, Any], ...]:
    """The catalog as rows of headwater.catalog."""
    return tuple(
        {
            "relation": table.relation,
            "schema_name": table.name.schema,
            "table_name": table.name.name,
            "replica_identity": table.replica_identity,
            "key_columns": list(table.key),
            "columns": [
                {
                    "name": column.name,
                    "not_null": column.not_null,
                    "generated": "",
                    "type": column.type.spec.type,
                    "base": column.type.spec.base,
                    "kind": column.type.spec.kind,
                    "dims": column.type.spec.dims,
                }
                for column in table.columns
            ],
        }
        for table in catalog.tables.values()
    )


ROWS = rows_of(demo_catalog())
SOURCES = Sources(ROWS, frozenset(demo_catalog().by_name))


def planned(*texts: str, wanted: Wanted | None = None, state: State | None = None, **options: Any) -> ViewsPlan:
    files = [SqlFile(f"v{number}.sql", text) for number, text in enumerate(texts)]
    return plan_views(files, options.pop("sources", SOURCES), wanted or Wanted(), state or State(), **options)


def applied(*texts: str) -> Wanted:
    return Wanted({parse(text)[0].name: WantedView(text, [], 1.0, "b") for text in texts})


def actions(plan: ViewsPlan) -> dict[str, Action]:
    return {change.name: change.action for change in plan.changes}


def test_a_plan_tells_new_changed_dropped_and_unchanged_apart() -> None:
    plan = planned(CARD, CITIES.replace("AS n", "AS m"), wanted=applied(CITIES, ALBUM))
    assert actions(plan) == {"card": Action.NEW, "cities": Action.CHANGED, "album": Action.DROPPED}
    (changed,) = plan.having(Action.CHANGED)
    assert "-CREATE MATERIALIZED VIEW cities AS SELECT city, count(*) AS n" in changed.diff
    assert "+CREATE MATERIALIZED VIEW cities AS SELECT city, count(*) AS m" in changed.diff
    assert not plan.is_empty
    assert planned(CARD, wanted=applied(CARD)).is_empty


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (CARD.replace("-- A card.\n", "/* Another */ "), True),
        (CARD.replace("SELECT", "\n\n   SELECT   "), True),
        (CARD.replace(";", ""), True),
        (CARD.replace("l.title", "l.kind"), False),
        (CARD.replace("l.title", "'l.title' AS t"), False),
    ],
)
def test_whitespace_and_comments_are_no_change(text: str, same: bool) -> None:
    assert is_same(CARD, text) is same


def test_a_refusal_says_where_and_why_and_everything_else_is_still_planned() -> None:
    plan = planned(CARD, WRONG, "SELECT 1")
    assert actions(plan) == {"card": Action.NEW, "wrong": Action.REFUSED, "v2": Action.REFUSED}
    (wrong,) = [change.refusal for change in plan.changes if change.name == "wrong"]
    assert wrong is not None
    assert wrong.place == "v1.sql:2:12"
    assert wrong.error.reason == "unknown-column"
    assert wrong.error.detail.splitlines()[-2:] == ["  SELECT id, pric FROM listings;", "             ^"]
    assert plan.is_refused


def test_a_table_that_is_not_captured_is_told_from_one_that_is_not_there() -> None:
    few = Sources(ROWS, frozenset({TableName("public", "listings")}))
    (change,) = planned(CARD, sources=few).changes
    assert change.refusal is not None
    assert change.refusal.error.reason == "not-captured"
    assert change.refusal.error.fact == "public.agents is not captured"
    (other,) = planned(CARD.replace("agents a", "agnets a"), sources=few).changes
    assert other.refusal is not None
    assert other.refusal.error.reason == "unknown-table"


def test_one_name_in_two_files_is_refused() -> None:
    plan = planned(CARD, CARD)
    assert [change.action for change in plan.changes] == [Action.NEW, Action.REFUSED]


def test_views_of_one_file_are_written_down_each_by_itself() -> None:
    plan = planned(CARD + CITIES + "\n-- The end.\n")
    texts = {change.name: change.declared.text for change in plan.changes if change.declared}
    assert texts["card"].startswith("-- A card.\nCREATE")
    assert {name: [view.name for view in parse(text)] for name, text in texts.items()} == {
        "card": ["card"],
        "cities": ["cities"],
    }


def test_a_paused_view_is_built_again_and_so_is_one_that_is_named() -> None:
    paused = State(views={"card": ViewStatus(ViewState.PAUSED, "g", 1.0, "table public.agents changed: at 1:2: -name")})
    (change,) = planned(CARD, wanted=applied(CARD), state=paused).changes
    assert change.action is Action.AGAIN
    assert change.why.startswith("paused: table public.agents changed")
    assert changed_tables([change], paused) == {"card": {"public.agents"}}
    (asked,) = planned(CARD, wanted=applied(CARD), rebuild=["card"]).changes
    assert asked.action is Action.AGAIN
    with pytest.raises(ConfigurationError, match="no view crad"):
        planned(CARD, rebuild=["crad"])


def test_only_leaves_the_others_out() -> None:
    plan = planned(CARD, CITIES, WRONG, wanted=applied(ALBUM), only=["cities"])
    assert actions(plan) == {"cities": Action.NEW}


def _cost(text: str) -> tuple[Tier, str]:
    (definition,) = parse(text)
    cost = cost_of(plan_view(definition, demo_catalog()).root)
    return cost.tier, cost.text


def test_the_tier_follows_from_the_stages() -> None:
    assert _cost(CARD) == (Tier.INCREMENTAL, "1 join: cost follows the change")
    assert _cost(CITIES) == (Tier.INCREMENTAL, "1 aggregate: cost follows the change")
    plain = "CREATE MATERIALIZED VIEW v AS SELECT id FROM listings WHERE price > 1"
    assert _cost(plain) == (Tier.INCREMENTAL, "filters and columns only: cost follows the change")
    assert _cost(ALBUM) == (Tier.BY_GROUP, "1 aggregate: computes the touched groups of 1 aggregate anew")


def test_equal_parts_of_views_that_are_applied_together_are_shared() -> None:
    other = CARD.replace("VIEW card", "VIEW card_too").replace("l.title, ", "l.title, l.id + 1 AS next, ")
    plan = planned(CARD, other, CITIES)
    shares = {change.name: change.shares for change in plan.changes}
    assert shares == {"card": {"card_too": ["join"]}, "card_too": {"card": ["join"]}, "cities": {}}
    apart = State(views={"card": ViewStatus(ViewState.LIVE, "g1"), "card_too": ViewStatus(ViewState.LIVE, "g2")})
    plan = planned(CARD, other, wanted=applied(CARD, other), state=apart)
    assert [change.shares for change in plan.changes] == [{}, {}]


def test_what_is_wanted_next() -> None:
    plan = planned(CARD, CITIES, wanted=applied(CITIES, ALBUM))
    skips = {"public.agents": 70, "public.photos": 80}
    wanted = next_wanted(applied(CITIES, ALBUM), plan, SOURCES, skips, drop=False, batch="new", at_s=9.0)
    assert wanted.views.keys() == {"card", "cities", "album"}
    card = wanted.views["card"]
    assert (card.text, card.batch, card.applied_at_s, card.skip_before) == (CARD, "new", 9.0, {"public.agents": 70})
    assert {row["table_name"] for row in card.tables} == {"agents", "listings"}
    assert wanted.views["cities"].batch == "b"
    dropped = next_wanted(applied(CITIES, ALBUM), plan, SOURCES, {}, drop=True, batch="new", at_s=9.0)
    assert dropped.views.keys() == {"card", "cities"}


def test_where_a_table_has_its_present_shape_is_known_from_groups_of_this_era(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    for number, (era, skips) in enumerate([(7, {"public.a": 5}), (7, {"public.a": 9}), (6, {"public.b": 3})]):
        GroupSpec(f"g{number}", era, "t", 0, 1, {}, [], skip_before=skips).save(registry.groups)
    assert known_skips(registry, 7) == {"public.a": 9}


def test_building_again_keeps_the_view_and_changes_its_application(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.want(Wanted({name: WantedView(text, [], 1.0, "b", {"public.a": 5}) for name, text in TEXTS.items()}))
    again = apply_again(registry, ["card"])
    wanted = registry.wanted().views
    assert again.views == ("card",)
    assert wanted["card"] == WantedView(CARD, [], again.at_s, again.batch, {"public.a": 5})
    assert wanted["cities"].applied_at_s == 1.0


def waiting(registry: Registry) -> WantedView:
    """The card's other definition, as `headwater apply --review` writes it down."""
    before = WantedView(CARD, [{"schema_name": "public", "table_name": "agents"}], 1.0, "a", {"public.a": 5}, 7)
    listings = [{"schema_name": "public", "table_name": "listings"}]
    view = WantedView(CARD.replace("l.title, ", ""), listings, 2.0, "b", {}, 7, is_reviewed=False, previous=before)
    registry.want(Wanted({"card": view}))
    return view


def test_what_waits_for_somebody_to_look_is_not_built_again_past_them(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    waiting(registry)
    before = registry.wanted()
    for from_mirrors in (False, True):
        with pytest.raises(ViewError, match="card waits for a decision"):
            apply_again(registry, ["card"], from_mirrors=from_mirrors)
    assert registry.wanted() == before


def test_what_waits_for_somebody_to_look_waits_on_when_its_tables_are_read_anew(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[TableName]] = []
    monkeypatch.setattr(applying, "request_snapshot", lambda conn, tables: asked.append(list(tables)))
    known = waiting(place.registry)
    deployment = place.deployment
    again = read_anew(place.registry, ["card"], cast(Any, None), deployment.kafka, deployment.source)
    view = place.registry.wanted().views["card"]
    assert (view.text, view.is_reviewed, view.applied_at_s) == (known.text, False, again.at_s)
    assert view.previous is not None
    assert known.previous is not None
    assert (view.previous.text, view.previous.applied_at_s) == (CARD, known.previous.applied_at_s)
    brought = {"public.agents": 123, "public.listings": 123}
    assert (view.skip_before, view.previous.skip_before) == (brought, brought), "a rejection can be built from there"
    assert asked == [[TableName("public", "agents"), TableName("public", "listings")]]


def test_building_again_what_waits_is_no_decision_but_applying_another_text_is() -> None:
    known = applied(CITIES)
    waits = {
        "cities": msgspec.structs.replace(known.views["cities"], is_reviewed=False, previous=known.views["cities"])
    }
    again = planned(CITIES, wanted=Wanted(waits), rebuild=["cities"])
    wanted = next_wanted(Wanted(waits), again, SOURCES, {}, drop=False, batch="new", at_s=9.0)
    assert (wanted.views["cities"].is_reviewed, wanted.views["cities"].previous) == (False, known.views["cities"])
    other = planned(CITIES.replace("AS n", "AS m"), wanted=Wanted(waits))
    wanted = next_wanted(Wanted(waits), other, SOURCES, {}, drop=False, batch="new", at_s=9.0)
    assert (wanted.views["cities"].is_reviewed, wanted.views["cities"].previous) == (True, None)


# Waiting


def note(registry: Registry, state: ViewState, applied_at_s: float, reason: str = "") -> None:
    views = {"card": ViewStatus(state, "g", applied_at_s, reason)}
    registry.note(State(time.time(), 1, views, {"g": GroupStatus(40, 100, False, True)}))


def test_waiting_ends_when_this_application_is_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "POLL_S", 0)
    registry = Registry(tmp_path)
    note(registry, ViewState.LIVE, 1.0)
    looks = wait(Applied(("card",), (), "b", 2.0), registry)
    assert next(looks)[0].state is ViewState.WAITING, "what is live is the application before"
    note(registry, ViewState.BUILDING, 2.0)
    (building,) = next(looks)
    assert (building.state, building.done, building.total) == (ViewState.BUILDING, 40, 100)
    note(registry, ViewState.PAUSED, 2.0, "no")
    assert next(looks)[0].reason == "no"
    assert list(looks) == []


def test_waiting_ends_when_nobody_keeps_views(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.note(State(time.time() - 60))
    with pytest.raises(ViewError, match="no process keeps the views"):
        list(wait(Applied(("card",), (), "b", 2.0), registry))


# The command line


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A folder with two views, and everything that would ask a server answered from here."""
    (tmp_path / "sql" / "deep").mkdir(parents=True)
    (tmp_path / "sql" / "card.sql").write_text(CARD)
    (tmp_path / "sql" / "deep" / "cities.sql").write_text(CITIES)
    deployment = Deployment.of(Settings(), StackState())
    place = Place(deployment, Registry(tmp_path / "state"), tmp_path / "sql")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Place, "here", classmethod(lambda cls: place))
    monkeypatch.setattr("cdc.postgres.connect", lambda address: nullcontext())
    monkeypatch.setattr(Sources, "read", classmethod(lambda cls, conn, source, files: SOURCES))
    monkeypatch.setattr(applying, "altered_since", lambda conn, began_s: set())
    monkeypatch.setattr("cdc.eras.current", lambda kafka, source: SimpleNamespace(era=7, first_offset=10))
    monkeypatch.setattr(applying, "topic_state", lambda kafka, topic: SimpleNamespace(low=10, high=123))
    return place


def test_plan_exits_with_2_then_apply_then_with_0(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["plan"]) == 2
    out = capsys.readouterr().out
    assert "card    new     incremental  id (inferred)    agents, listings  1 join: cost follows the change" in out
    assert out.endswith("2 new\n")
    assert cli.run(["apply", "--no-wait"]) == 0
    assert "no process keeps the views yet: headwater up" in capsys.readouterr().err
    assert place.registry.wanted().views.keys() == {"card", "cities"}
    assert len({view.batch for view in place.registry.wanted().views.values()}) == 1
    before = place.registry.wanted()
    assert cli.run(["plan"]) == 0
    assert cli.run(["apply"]) == 0
    assert place.registry.wanted() == before, "nothing to do changes nothing"


def test_nothing_is_applied_when_one_view_is_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    (place.folder / "wrong.sql").write_text(WRONG)
    assert cli.run(["plan"]) == 1
    out = capsys.readouterr().out
    assert "sql/wrong.sql:2:12: " in out
    assert "[unknown-column]" in out
    assert '  hint: did you mean "price"?' in out
    assert cli.run(["apply", "--yes"]) == 1
    assert place.registry.wanted() == Wanted()
    capsys.readouterr()
    assert cli.run(["plan", "--json"]) == 1
    told = {each["view"]: each for each in json.loads(capsys.readouterr().out)["views"]}
    assert (told["wrong"]["line"], told["wrong"]["column"], told["wrong"]["reason"]) == (2, 12, "unknown-column")
    assert told["card"]["tier"] == "incremental"


def test_dropping_is_asked_for_twice(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.run(["apply"]) == 0
    (place.folder / "card.sql").unlink()
    assert cli.run(["plan"]) == 2
    assert cli.run(["apply"]) == 0
    assert "headwater apply --drop drops it" in capsys.readouterr().err
    assert "card" in place.registry.wanted().views
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert cli.run(["apply", "--drop"]) == 2, "that is no terminal"
    assert "card" in place.registry.wanted().views
    monkeypatch.setattr("sys.stdin", Typed("n\n"))
    capsys.readouterr()
    assert cli.run(["apply", "--drop", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["hint"] == "--yes", "one object, and not the plan before it"
    assert cli.run(["apply", "--drop"]) == 130, "the answer was no"
    assert "card" in place.registry.wanted().views
    assert cli.run(["apply", "--drop", "--yes"]) == 0
    assert place.registry.wanted().views.keys() == {"cities"}


def test_apply_waits_and_fails_with_the_reason(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.registry.want(Wanted())
    note(place.registry, ViewState.LIVE, 0.0)
    assert place.registry.is_kept()
    done = threading.Event()

    def maintain() -> None:
        while not done.wait(0.01):
            wanted = place.registry.wanted().views
            if "card" in wanted:
                note(place.registry, ViewState.PAUSED, wanted["card"].applied_at_s, "table public.agents changed")

    thread = threading.Thread(target=maintain)
    thread.start()
    try:
        assert cli.run(["apply", "--only", "card", "--wait"]) == 1
    finally:
        done.set()
        thread.join()
    assert "card  paused  table public.agents changed" in capsys.readouterr().out


def test_a_table_that_changed_is_read_anew(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[TableName]] = []
    monkeypatch.setattr(applying, "request_snapshot", lambda conn, tables: asked.append(list(tables)))
    assert cli.run(["apply"]) == 0
    views = {"card": ViewStatus(ViewState.PAUSED, "g", 1.0, "table public.agents changed: at 7:9: -name text")}
    place.registry.note(State(0.0, 1, views))
    assert cli.run(["apply"]) == 0
    assert asked == [[TableName("public", "agents")]]
    assert place.registry.wanted().views["card"].skip_before == {"public.agents": 123}
    assert place.registry.wanted().views["cities"].skip_before == {}


def test_tables_whose_beginning_is_gone_are_read_anew(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[TableName]] = []
    monkeypatch.setattr(applying, "request_snapshot", lambda conn, tables: asked.append(list(tables)))
    monkeypatch.setattr(applying, "topic_state", lambda kafka, topic: SimpleNamespace(low=50, high=123))
    brought = {"public.listings": 60}
    GroupSpec("g", 7, "t", 10, 1, {}, [], skip_before=brought).save(place.registry.groups)
    assert cli.run(["apply"]) == 0
    assert asked == [[TableName("public", "agents")]], "a snapshot after the log's beginning brought the other"
    assert place.registry.wanted().views["card"].skip_before == {"public.agents": 123, **brought}


def test_explain_a_file(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["explain", "sql/card.sql"]) == 0
    out = capsys.readouterr().out
    assert "key     id (inferred)" in out
    assert f"topic   {Source('demo').name}.view.card" in out
    assert "inner join on l.agent_id = a.id" in out
    (place.folder / "wrong.sql").write_text(WRONG)
    assert cli.run(["explain", "sql/wrong.sql"]) == 1
    assert "pric" in capsys.readouterr().err


def test_the_folder_is_the_settings_one_or_the_examples(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "views").mkdir()
    assert sql_folder(tmp_path, "views") == tmp_path / "examples"
    (tmp_path / "views" / "a.sql").write_text(CARD)
    assert sql_folder(tmp_path, "views") == tmp_path / "views"
    with pytest.raises(ConfigurationError, match="no folder"):
        read_files(tmp_path / "missing")
    with pytest.raises(ConfigurationError, match=r"no \.sql file"):
        read_files(tmp_path / "examples")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ("sinks = 'cache', lookup = 'titel'", "no column titel"),
        ("sinks = 'cache', cache_ttl_s = 'soon'", "not a number of seconds"),
        ("sinks = 'search', language = 'klingon'", "no stemmer"),
        ("sinks = 'search', geo = 'nowhere'", "geo"),
        ("sinks = 'warehouse', partition_by = 'titel'", "titel"),
    ],
)
def test_what_a_sink_would_refuse_later_is_refused_now(options: str, word: str) -> None:
    plan = planned(CARD.replace("card AS", f"card WITH ({options}) AS"))
    (refused,) = plan.having(Action.REFUSED)
    assert refused.refusal is not None
    assert word in str(refused.refusal.error)
