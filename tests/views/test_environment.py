"""One LMDB environment a folder and process: shared by who comes, closed by the last, never remapped under a reader."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lmdb
import pytest

from cdc.errors import StateDamaged, StateError
from tests.waiting import eventually
from views.arrangement import environment
from views.arrangement.environment import close_environment, open_environment, opened


def written(folder: Path, rows: int) -> None:
    writer = open_environment(folder, create=True, durable=False)
    table = writer.table("rows", create=True)
    while True:
        try:
            with writer.writing() as transaction:
                for number in range(rows):
                    transaction.put(number.to_bytes(4, "big"), bytes(1_000), db=table)
            break
        except lmdb.MapFullError:
            writer.grow()
    close_environment(writer)


def written_elsewhere(folder: Path, rows: int) -> None:
    process = multiprocessing.get_context("spawn").Process(target=written, args=(folder, rows))
    process.start()
    process.join(60)
    assert process.exitcode == 0


def count(folder: Path) -> int:
    with opened(folder) as found:
        table = found.table("rows")
        with found.reading() as transaction:
            return int(transaction.stat(table)["entries"])


def test_readers_share_and_the_last_closes(tmp_path: Path) -> None:
    written(tmp_path, 10)
    with opened(tmp_path) as one, opened(tmp_path) as other:
        assert one is other
        assert count(tmp_path) == 10
    lmdb.open(str(tmp_path)).close()  # nobody has it open


def test_a_reader_shares_with_a_writer(tmp_path: Path) -> None:
    writer = open_environment(tmp_path, create=True, durable=False)
    writer.table("rows", create=True)
    assert count(tmp_path) == 0
    close_environment(writer)


def test_a_writer_comes_when_readers_have_gone(tmp_path: Path) -> None:
    written(tmp_path, 10)
    with ThreadPoolExecutor(1) as pool:
        with opened(tmp_path):
            writing = pool.submit(written, tmp_path, 20)
            with pytest.raises(TimeoutError):
                writing.result(0.2)
        writing.result(30)
    assert count(tmp_path) == 20


def test_a_writer_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "OTHERS_S_MAX", 0.1)
    written(tmp_path, 10)
    with opened(tmp_path), pytest.raises(StateError, match="is in use"):
        written(tmp_path, 20)


def test_whatever_lmdb_says_is_told_as_ours(tmp_path: Path) -> None:
    written(tmp_path, 10)
    elsewhere = lmdb.open(str(tmp_path))
    try:
        with pytest.raises(StateError, match="cannot be read or written"):
            count(tmp_path)
    finally:
        elsewhere.close()
    with opened(tmp_path) as found, pytest.raises(StateDamaged, match="no table other"):
        found.table("other")


def test_a_file_that_outgrows_the_map_of_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes then waits for the one under way, whose pages must stay where they are."""
    monkeypatch.setattr(environment, "READER_BYTES_FIRST", 1 << 20)
    written(tmp_path, 10)
    with ThreadPoolExecutor(2) as pool:
        with opened(tmp_path) as found:
            table = found.table("rows")
            with found.reading() as transaction:
                written_elsewhere(tmp_path, 5_000)
                counting = [pool.submit(count, tmp_path) for _ in range(2)]
                with pytest.raises(TimeoutError):
                    counting[0].result(0.2)
                assert transaction.stat(table)["entries"] == 10
                assert [bytes(key) for key, _ in transaction.cursor(table)] == [n.to_bytes(4, "big") for n in range(10)]
        assert [each.result(30) for each in counting] == [5_000, 5_000]


def test_a_reader_that_stays_for_too_long_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "READER_BYTES_FIRST", 1 << 20)
    monkeypatch.setattr(environment, "OTHERS_S_MAX", 0.1)
    written(tmp_path, 10)
    with opened(tmp_path) as found, found.reading():
        written_elsewhere(tmp_path, 5_000)
        with pytest.raises(StateError, match="is in use"):
            count(tmp_path)
    assert count(tmp_path) == 5_000


def test_threads_while_another_process_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "READER_BYTES_FIRST", 1 << 20)
    written(tmp_path, 1)
    over, counted = threading.Event(), [0, 0, 0]

    def reading(number: int) -> int:
        last = 0
        while not over.is_set():
            found = count(tmp_path)
            assert found >= last
            last, counted[number] = found, counted[number] + 1
        return count(tmp_path)

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(reading, number) for number in range(3)]
        try:
            for rows in (100, 2_000, 20_000):
                written_elsewhere(tmp_path, rows)
            eventually(lambda: min(counted) or pytest.fail("no reader came to it"), 10)
        finally:
            over.set()
        assert [each.result(30) for each in readers] == [20_000] * 3
