"""`headwater log`: what people and programs see of the change log."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
import typer
from typer.testing import CliRunner, Result

from cdc.addresses import KafkaAddress
from cdc.changelog import ChangeLog
from cdc.errors import ConfigurationError, LogError
from cdc.events import UNCHANGED, ChangeEvent, DeadLetter, Op, TableName
from cdc.position import Lsn, Position
from headwater.cli import log as verbs
from headwater.log_lines import entry_line, entry_object
from headwater.log_search import find, last_entries, place
from tests.cdc.log_writer import LogWriter, begin, end, update

NOW = datetime(2026, 1, 31, 12, 0, 0, 5000, tzinfo=UTC)


def change(op: Op, before: dict[str, object] | None, after: dict[str, object] | None) -> ChangeEvent:
    table = TableName("public", "listings")
    return ChangeEvent(
        Position(7, 42), op, table, before, after, Lsn(0x1A2B), 9, NOW, NOW, key={"id": 3}, order=1, message=None
    )


def text(entry: ChangeEvent | DeadLetter) -> str:
    return "".join(part if isinstance(part, str) else part[0] for part in entry_line(entry))


def test_a_line_says_where_when_what_and_which_columns_changed() -> None:
    before = {"id": 3, "price": "100.00", "city": "Lyon", "note": "a"}
    after = {"id": 3, "price": "120.00", "city": "Lyon", "note": UNCHANGED}
    assert text(change(Op.UPDATE, before, after)) == (
        '7:42  2026-01-31 12:00:00.005Z    update  public.listings id=3  price: "100.00" → "120.00"  (unchanged: note)'
    )
    assert text(change(Op.DELETE, {"id": 3}, None)).endswith("delete  public.listings id=3")
    assert text(change(Op.INSERT, None, {"id": 3, "city": "x" * 500})).endswith(f'id=3  city="{"x" * 58}…')
    assert "dead letter" in text(DeadLetter(Position(7, 1), None, b"\xff", "not JSON"))


def test_an_object_tells_values_that_did_not_change_from_those_that_are_null() -> None:
    told = entry_object(change(Op.UPDATE, None, {"id": 3, "city": None, "note": UNCHANGED}))
    assert told["after"] == {"id": 3, "city": None}
    assert told["unchanged"] == ["note"]
    assert told["position"] == "7:42"
    assert told["lsn"] == "0/1A2B"


@pytest.mark.stack
class TestVerbs:
    @pytest.fixture
    def writer(self, kafka: KafkaAddress) -> LogWriter:
        writer = LogWriter(kafka)
        writer.snapshot(2)  # 0, 1
        writer.transaction(3)  # 3 … 7
        writer.write(begin(7, 2000), update(3, "old", "new", 7, 2000), end(7, 2000, 1))  # 9 … 11
        writer.commit()
        return writer

    @pytest.fixture
    def log(self, writer: LogWriter, monkeypatch: pytest.MonkeyPatch) -> ChangeLog:
        log = ChangeLog(writer.kafka, writer.source)
        monkeypatch.setattr(verbs, "_log", lambda: log)
        return log

    def run(self, *arguments: str) -> Result:
        app = typer.Typer()
        verbs.register(app)
        result = CliRunner().invoke(app, ["log", *arguments], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result

    def objects(self, *arguments: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.run(*arguments, "--json").stdout.splitlines()]

    def test_tail_prints_the_last_entries_in_order(self, log: ChangeLog, writer: LogWriter) -> None:
        told = self.objects("tail", "-n", "4")
        assert [each["position"] for each in told] == [f"{writer.era.era}:{offset}" for offset in (7, 9, 10, 11)]
        assert [each["kind"] for each in told] == ["end", "begin", "change", "end"]
        assert '"old" → "new"' in self.run("tail").output

    def test_tail_from_a_place_filtered(self, log: ChangeLog) -> None:
        assert len(self.objects("tail", "--from", "earliest")) == 10
        assert len(self.objects("tail", "--from", "earliest", "-n", "3")) == 3
        assert [each["op"] for each in self.objects("tail", "--from", "earliest", "--op", "update")] == ["update"]
        assert len(self.objects("tail", "--table", "public.items")) == 6
        assert self.objects("tail", "--table", "public.other") == []
        assert [each["op"] for each in self.objects("tail", "--from", "0/7D0", "--table", "items")] == ["update"]

    def test_show_prints_the_record_and_its_transaction(self, log: ChangeLog, writer: LogWriter) -> None:
        told = json.loads(self.run("show", f"{writer.era.era}:5", "--json").stdout)
        assert told["after"]["id"] == 4
        assert told["in_transaction"]["begin"]["position"] == f"{writer.era.era}:3"
        assert told["in_transaction"]["end"]["position"] == f"{writer.era.era}:7"
        assert "note" in self.run("show", f"{writer.era.era}:5").output
        with pytest.raises(LogError, match="there is no record at"):
            find(log, Position(writer.era.era, 8))
        assert find(log, Position(writer.era.era, 0)).begin is None

    def test_seek_prints_a_position(self, log: ChangeLog, writer: LogWriter) -> None:
        assert self.run("seek", "earliest").output.strip() == f"{writer.era.era}:0"
        assert self.run("seek", "latest").output.strip() == f"{writer.era.era}:13"
        assert place(log, "2020-01-01T00:00:00Z") == log.bounds()[0]
        assert place(log, "2999-01-01") == log.bounds()[1]
        with pytest.raises(ConfigurationError, match="not a place in the log"):
            place(log, "yesterday")

    def test_the_last_entries_are_found_in_however_small_windows(
        self, log: ChangeLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        every = [str(entry.position) for entry in log.entries(log.bounds()[0])]
        monkeypatch.setattr("headwater.log_search.FIRST_WINDOW", 1)
        for count in (1, 4, 20):
            entries, _ = last_entries(log, count, lambda _: True)
            assert [str(entry.position) for entry in entries] == every[-count:]
