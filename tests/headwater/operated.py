"""Tables that are captured and views that are kept in real places, for tests of who operates them."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdc import eras
from cdc.capture import Capture
from cdc.catalog_reader import describe
from cdc.events import TableName
from cdc.position import Lsn
from headwater import cli
from headwater.deployment import Deployment
from headwater.settings import Settings
from headwater.sinks import sink_kinds
from headwater.views.kept import Frontiers
from headwater.views.place import Place
from tests.headwater.views_keeper import keeping
from tests.waiting import eventually
from views.maintain.group import Group, GroupSpec
from views.maintain.registry import Registry, Wanted, WantedView
from views.sinks.board import read_board


class Shop:
    def __init__(
        self, capture: Capture, deployment: Deployment, folder: Path, ddl: str, views: dict[str, str], tables: list[str]
    ) -> None:
        settings = Settings(
            data_folder=folder,
            warehouse={"folder": str(folder / "warehouse"), "interval_s": 1},
            source=capture.source.name,
        )
        self.capture, self.views = capture, views
        self.deployment = replace(deployment, source=capture.source, postgres=capture.postgres, settings=settings)
        self.registry = Registry(settings.views_state)
        self.conn = psycopg.connect(capture.postgres.conninfo(), autocommit=True)
        self.conn.execute(ddl)  # type: ignore[call-overload]
        capture.ensure()
        described = describe(self.conn, [TableName("public", name) for name in tables])
        self.registry.want(Wanted({name: WantedView(text, described, 1.0, "b") for name, text in views.items()}))
        era = eras.current(capture.kafka, capture.source)
        spec = GroupSpec.new(era.era, era.topic_id, era.first_offset, 2, views, described)
        self.folder = spec.save(self.registry.groups)
        self.place = Place(self.deployment, self.registry, folder)
        self.frontiers = Frontiers(capture.kafka, capture.source)

    def keeping(self) -> AbstractContextManager[None]:
        sinks = sink_kinds(self.deployment)
        return keeping(self.capture.kafka, self.capture.source, self.registry, self.folder, sinks)

    def whole(self) -> None:
        """Until every view and every place of it hold what is committed now."""
        (lsn,) = self.conn.execute("select pg_current_wal_insert_lsn()::text").fetchone()
        wanted = Lsn.parse(lsn)
        for view in self.views:
            assert self.frontiers.wait(view, lambda f: Lsn.parse(f.lsn) >= wanted, 60)

        def included() -> None:
            board = read_board(self.capture.kafka, self.capture.source)
            assert board
            for status in board.values():
                assert status.mark is not None, status
                assert Lsn.parse(status.mark.lsn) >= wanted, status

        eventually(included)

    def leave(self) -> None:
        self.conn.close()
        for name, kind in sink_kinds(self.deployment).items():
            for view in self.views:
                if name != "alerts" and (generation := kind.current(self.capture.source.name, view)) is not None:
                    sink = kind.open(self.group.shape(view, self.capture.source), generation)
                    sink.drop()
                    sink.close()
                    kind.switch(self.capture.source.name, view, None)

    @property
    def group(self) -> Group:
        return Group.load(self.folder)


def verbs(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, Any]]:
    """A verb with --json: its exit code and what it printed."""
    monkeypatch.setattr(Place, "here", classmethod(lambda cls: shop.place))
    monkeypatch.setattr(Deployment, "resolve", lambda _settings: shop.deployment)

    def run(*words: str) -> tuple[int, Any]:
        capsys.readouterr()
        code = cli.run([*words, "--json"])
        out = capsys.readouterr().out
        return code, json.loads(out) if out else None

    return run
