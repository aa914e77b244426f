"""The command line: how it fails, what it prints for programs, and the logs verb on real files."""

from __future__ import annotations

import json
import logging
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from cdc.errors import HeadwaterError, SourceError, StackError
from cdc.position import Position
from headwater import __version__, cli, events_log
from headwater.cli import logs, output
from headwater.settings import LogSettings

DEADLINE_S = 20.0


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("HEADWATER_")]:
        monkeypatch.delenv(name)
    # Set first, so that monkeypatch takes back what --config leaves behind.
    monkeypatch.setenv("HEADWATER_CONFIG", "")


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Adds a verb `try` that does what it is given."""

    def add(action: Callable[[], None]) -> None:
        app = cli.make_app()

        @app.command("try")
        def _try(as_json: output.JsonOption = False) -> None:
            action()

        monkeypatch.setattr(cli, "app", app)

    return add


def raising(error: BaseException) -> Callable[[], None]:
    def action() -> None:
        raise error

    return action


# Errors and exit codes


def test_an_error_is_fact_detail_and_hint_on_standard_error(verb, capsys) -> None:
    verb(raising(StackError("kafka [bold]did[/bold] not start", detail="one\ntwo [x]", hint="headwater logs kafka")))
    assert cli.run(["try"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "error: kafka [bold]did[/bold] not start",
        "detail: one",
        "        two [x]",
        "hint: headwater logs kafka",
    ]


def test_long_lines_are_not_wrapped(verb, capsys) -> None:
    verb(raising(SourceError("x" * 500)))
    cli.run(["try"])
    assert capsys.readouterr().err == f"error: {'x' * 500}\n"


def test_with_json_the_error_is_an_object_on_standard_output(verb, capsys) -> None:
    verb(raising(StackError("a fact", detail="a detail", hint="a hint")))
    assert cli.run(["try", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out) == {"error": {"fact": "a fact", "detail": "a detail", "hint": "a hint"}}
    assert err == ""


def test_what_the_caller_wrote_wrong_exits_with_2(capsys) -> None:
    assert cli.run(["--config", "missing.toml", "config", "show"]) == 2
    assert "no settings file" in capsys.readouterr().err
    assert cli.run(["doctro"]) == 2
    assert "doctor" in capsys.readouterr().err
    assert cli.run(["doctor", "--json", "--bogus"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["hint"] == "headwater doctor --help"


def test_an_interrupt_exits_with_130(verb, capsys) -> None:
    verb(raising(KeyboardInterrupt()))
    assert cli.run(["try"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_verb_chooses_its_exit_code(verb) -> None:
    verb(raising(typer.Exit(7)))
    assert cli.run(["try"]) == 7
    verb(lambda: None)
    assert cli.run(["try"]) == 0


def test_the_unforeseen_is_short_and_whole_only_when_asked_for(verb, capsys, monkeypatch) -> None:
    verb(raising(ZeroDivisionError("by [zero]")))
    assert cli.run(["try"]) == 1
    err = capsys.readouterr().err
    assert "ZeroDivisionError: by [zero]" in err
    assert "Traceback" not in err
    monkeypatch.setenv("HEADWATER_DEBUG", "1")
    assert cli.run(["try"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_version_and_help(capsys) -> None:
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"headwater {__version__}\n"
    assert cli.run(["--help"]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in ("doctor", "logs", "config"))


def test_start_up_imports_nothing_heavy() -> None:
    heavy = ("pyspark", "confluent_kafka", "psycopg", "sqlalchemy", "pydantic", "httpx", "pandas", "pyarrow", "fastapi")
    program = f"import sys, headwater.cli; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_verb_that_reads_settings_sees_the_file_of_the_command_line(capsys) -> None:
    Path("mine.toml").write_text('source = "mine"')
    assert cli.run(["--config", "mine.toml", "config", "show", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["file"] == str(Path("mine.toml").absolute())
    assert shown["settings"]["source"] == {"value": "mine", "from": "file"}


def test_config_show_hides_secrets(capsys, monkeypatch) -> None:
    monkeypatch.setenv("HEADWATER_POSTGRES__URL", "postgresql://u:hunter2@h/d")
    for arguments in (["config", "show"], ["config", "show", "--json"]):
        assert cli.run(arguments) == 0
        out = capsys.readouterr().out
        assert "hunter2" not in out
        assert "postgresql://u:***@h/d" in out


# Output


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_234_567, "1.2 MB"), (999_960, "1.0 MB"), (5e15, "5.0 PB")],
)
def test_bytes_for_people(count: float, text: str) -> None:
    assert output.bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0042, "4 ms"),
        (0.9999, "1.0 s"),
        (3.21, "3.2 s"),
        (59.99, "1 min 0 s"),
        (61, "1 min 1 s"),
        (4000, "1 h 6 min"),
        (200_000, "2 d 7 h"),
        (-5, "-5.0 s"),
    ],
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert output.duration_text(seconds) == text


def test_json_knows_our_values(capsys) -> None:
    at = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    output.print_json({"position": Position(1, 2), "at": at, "raw": b"\xffa", "path": Path("/x"), "é": (1,)})
    assert json.loads(capsys.readouterr().out) == {
        "position": "1:2",
        "at": "2024-01-02T03:04:05+00:00",
        "raw": "\\xffa",
        "path": "/x",
        "é": [1],
    }


def test_a_table_away_from_a_terminal_is_neither_cut_nor_read_as_markup(capsys) -> None:
    output.table(("name", "value"), [("a", "[red]x[/red]"), ("long", "y" * 300), ("none", None)])
    assert capsys.readouterr().out.splitlines() == ["name  value", "a     [red]x[/red]", f"long  {'y' * 300}", "none"]


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colour_on_a_terminal_only_and_not_when_it_is_not_wanted(no_color: str, coloured: bool) -> None:
    ours, theirs = pty.openpty()
    environ = {**os.environ, "NO_COLOR": no_color, "TERM": "xterm-256color"}
    program = "from headwater.cli.output import line; line(('red', 'red'))"
    subprocess.run([sys.executable, "-c", program], stdout=theirs, env=environ, check=True)
    os.close(theirs)
    shown = os.read(ours, 1000)
    os.close(ours)
    assert b"red" in shown
    assert (b"\x1b[" in shown) is coloured


# Logs


@pytest.fixture
def log_folder() -> Path:
    folder = Path(".headwater/logs").absolute()
    folder.mkdir(parents=True)
    return folder


def test_logs_of_one_component(log_folder: Path, capsys) -> None:
    (log_folder / "kafka.log").write_text("".join(f"line {n}\n" for n in range(100)))
    assert cli.run(["logs", "kafka", "-n", "2"]) == 0
    assert capsys.readouterr().out == "line 98\nline 99\n"
    assert cli.run(["logs", "kafka", "-n", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"component": "kafka", "line": "line 99"}


def test_logs_of_all_are_named(log_folder: Path, capsys) -> None:
    (log_folder / "kafka.log").write_text("one\n")
    (log_folder / "redis.log").write_text("[two]\n")
    assert cli.run(["logs"]) == 0
    assert [row.split() for row in capsys.readouterr().out.splitlines()] == [["kafka", "one"], ["redis", "[two]"]]


def test_an_unknown_component_gets_the_nearest_name(capsys) -> None:
    assert cli.run(["logs", "kafak"]) == 2
    assert "did you mean headwater logs kafka?" in capsys.readouterr().err


def test_no_log_yet(capsys) -> None:
    assert cli.run(["logs", "redis"]) == 1
    assert "hint: headwater up" in capsys.readouterr().err


@given(
    texts=st.lists(st.text(st.characters(exclude_characters="\n\r", codec="utf-8"), max_size=40), max_size=30),
    count=st.integers(0, 40),
    block=st.integers(1, 64),
    open_line=st.sampled_from(["", "not yet"]),
)
def test_last_lines_are_the_last_lines(tmp_path_factory, texts, count, block, open_line) -> None:
    file = tmp_path_factory.mktemp("log") / "x.log"
    file.write_bytes("".join(f"{text}\n" for text in texts).encode() + open_line.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "BLOCK_BYTES", block)
        found, place = logs.last_lines(file, count)
    assert found == (texts[-count:] if count else [])
    assert place == file.stat().st_size - len(open_line)


def test_a_tail_gives_whole_lines_once_across_cuts_and_replacement(tmp_path: Path) -> None:
    file = tmp_path / "x.log"
    tail = logs.Tail.open("x", file, 10)
    assert list(tail.new_lines()) == []
    file.write_text("one\ntw")
    assert list(tail.new_lines()) == ["one"]
    with file.open("a") as out:
        out.write("o\n")
    assert list(tail.new_lines()) == ["two"]
    assert list(tail.new_lines()) == []
    file.write_text("new\n")
    assert list(tail.new_lines()) == ["new"]
    (tmp_path / "other").write_text("a replacement that is longer than before\n")
    (tmp_path / "other").replace(file)
    assert list(tail.new_lines()) == ["a replacement that is longer than before"]


def test_follow_goes_on_until_interrupted(log_folder: Path) -> None:
    file = log_folder / "kafka.log"
    file.write_text("first\n")
    program = [sys.executable, "-c", "from headwater.cli import main; main()", "logs", "kafka", "--follow", "--json"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        timer = threading.Timer(DEADLINE_S, process.kill)
        timer.start()
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["line"] == "first"
            with file.open("a") as out:
                out.write("second\n")
            assert json.loads(process.stdout.readline())["line"] == "second"
            process.send_signal(2)
            assert process.wait() == 130
        finally:
            timer.cancel()
            process.kill()


# Headwater's own log


@pytest.fixture
def _logging_restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    for handler in handlers:
        root.removeHandler(handler)
    yield
    for handler in root.handlers[:]:
        root.removeHandler(handler)
        handler.close()
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)


@pytest.mark.usefixtures("_logging_restored")
def test_events_have_fields_and_no_secrets(tmp_path: Path, capsys) -> None:
    events_log.configure(LogSettings(format="json"), tmp_path)
    log = events_log.get_log("capture")
    log.info("connector restarted", attempt=2, key={"id": 1}, password="hunter2", given=SecretStr("hunter2"))
    log.debug("too quiet")
    logging.getLogger("a.library").warning("told by %s", "it")
    events = [json.loads(row) for row in (tmp_path / "headwater.log").read_text().splitlines()]
    assert [(event["event"], event["level"], event["logger"]) for event in events] == [
        ("connector restarted", "info", "capture"),
        ("told by it", "warning", "a.library"),
    ]
    assert events[0] | {"timestamp": ""} == events[0] | {
        "timestamp": "", "attempt": 2, "key": {"id": 1}, "password": "***", "given": "***",
    }  # fmt: skip
    told = [json.loads(row)["event"] for row in capsys.readouterr().err.splitlines()]
    assert told == ["connector restarted", "told by it"]


@pytest.mark.usefixtures("_logging_restored")
def test_an_error_event_carries_its_traceback(tmp_path: Path) -> None:
    events_log.configure(LogSettings(), tmp_path)
    try:
        raise HeadwaterError("a fact")
    except HeadwaterError:
        events_log.get_log("x").exception("epoch failed")
    event = json.loads((tmp_path / "headwater.log").read_text())
    assert event["exception"][0]["exc_type"] == "HeadwaterError"


def test_an_event_never_reaches_standard_output(capsys) -> None:
    """Also where nobody has configured logging: what a verb prints with --json is parsed by programs."""
    events_log.get_log("feed").warning("feed interrupted")
    assert capsys.readouterr().out == ""
