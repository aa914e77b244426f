"""`headwater sql` and what it refuses."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from cdc.errors import ConfigurationError, HeadwaterError, ViewError
from cdc.position import Lsn, Position
from headwater.cli.sql import register
from headwater.warehouse_sql import parse_as_of, run_sql
from tests.sinks.places import gone, mark, shape, upsert
from views.plan import Field
from views.sinks.sink import Change, ViewShape
from views.sinks.warehouse import WarehouseKind
from views.sqltypes import named


def written(folder: Path, of: ViewShape, changes: list[Change], generation: int = 1) -> None:
    sink = WarehouseKind(str(folder)).open(of, generation)
    sink.prepare()
    assert sink.apply(changes, mark(10**6, era=1, offset=5, published_at_us=10**6)) == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "data" / "warehouse"
    written(place, shape("demo", "card"), [upsert(1, 1, "a", "1.50"), upsert(2, 2, "b"), gone(2, 3), upsert(1, 4, "")])
    at = Field("at time", named("timestamp with time zone"))
    odd = ViewShape("demo", "odd", (Field("id", named("integer")), at), ("id",))
    written(place, odd, [Change(b'{"id":1}', b'{"id":1,"at time":"infinity"}', 1)])
    return place


@pytest.fixture
def cli(folder: Path, monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    monkeypatch.setenv("HEADWATER_DATA_FOLDER", str(folder.parent))
    monkeypatch.setenv("HEADWATER_SOURCE", "demo")
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    return app


def output(cli: typer.Typer, *arguments: str) -> str:
    done = CliRunner().invoke(cli, ["sql", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_a_table_csv_json_and_parquet(cli: typer.Typer, tmp_path: Path) -> None:
    text = "select id, label, price, null as none from card"
    assert output(cli, text).splitlines()[0].split() == ["id", "label", "price", "none"]
    assert output(cli, text, "--csv", "-") == 'id,label,price,none\n1,"",1.50,\n'
    assert json.loads(output(cli, text, "--json"), parse_float=str) == [
        {"id": 1, "label": "", "price": "1.50", "none": None}
    ]
    file = tmp_path / "it's.parquet"
    assert output(cli, text, "--parquet", str(file), "--csv", str(tmp_path / "it's.csv")) == ""
    assert pq.read_table(file).num_rows == 1
    assert (tmp_path / "it's.csv").read_text().startswith("id,label")
    with pytest.raises(ConfigurationError, match="cannot write"):
        output(cli, text, "--csv", str(tmp_path / "no" / "such.csv"))


def test_what_python_has_no_instant_for_is_printed(cli: typer.Typer) -> None:
    assert "infinity" in output(cli, "select * from odd")
    assert json.loads(output(cli, 'select "at time" from odd', "--json")) == [{"at time": "infinity"}]


def test_the_rows_of_the_generation_that_readers_use(folder: Path) -> None:
    written(folder, shape("demo", "card"), [upsert(9, 1, "new")], generation=2)
    kind = WarehouseKind(str(folder))
    assert run_sql(folder, "demo", "select id from card").to_pylist() == [{"id": 9}], "before any switch: the newest"
    kind.switch("demo", "card", 1)
    assert run_sql(folder, "demo", "select id from card").to_pylist() == [{"id": 1}]


@pytest.mark.parametrize(
    ("text", "fact", "hint"),
    [
        ("select * from crad", "no view crad", "did you mean card?"),
        ("select * from card_histori", "no view card_histori", "did you mean card_history?"),
        ("select pric from card", "cannot be run", "headwater sql --help"),
        ("selec 1", "cannot be run", "headwater sql --help"),
        ("delete from card", "read-only", "select … from VIEW"),
        ("select 1; drop view card", "read-only", "select … from VIEW"),
        ("copy card to 'x.csv'", "read-only", "select … from VIEW"),
        ("select * from read_text('pyproject.toml')", "cannot be run", "headwater sql --help"),
    ],
)
def test_what_is_refused_says_what_to_do(folder: Path, text: str, fact: str, hint: str) -> None:
    with pytest.raises(HeadwaterError, match=fact) as raised:
        run_sql(folder, "demo", text)
    assert hint in raised.value.hint


def test_points_in_time() -> None:
    assert parse_as_of("16/B374D848") == Lsn.parse("16/B374D848")
    assert parse_as_of("17:4") == Position(17, 4)
    assert parse_as_of("2026-05-01") == datetime(2026, 5, 1, tzinfo=UTC)
    assert parse_as_of("2026-05-01T12:00:00+02:00") == datetime(2026, 5, 1, 10, tzinfo=UTC)
    with pytest.raises(ConfigurationError, match="not a point in time"):
        parse_as_of("yesterday")


def test_before_the_history_there_is_nothing_to_say(folder: Path) -> None:
    with pytest.raises(ViewError, match="does not reach back"):
        run_sql(folder, "demo", "select * from card", "1970-01-01T00:00:00Z")
    with pytest.raises(ViewError, match="does not include 9:9 yet"):
        run_sql(folder, "demo", "select * from card", "9:9")
