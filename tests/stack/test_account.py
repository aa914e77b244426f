"""Who runs the servers that refuse root, and where their data can be."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from cdc.errors import StackError
from headwater.stack import account as account_module
from headwater.stack.account import Account, reachable, unprivileged

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root drops privileges")


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.usefixtures("root")
def test_an_account_that_does_not_exist_is_told() -> None:
    with pytest.raises(StackError, match="no account 'nobody-at-all'") as raised:
        unprivileged("nobody-at-all")
    assert "useradd" in raised.value.hint
    assert "stack.account" in raised.value.hint


@pytest.mark.usefixtures("root")
def test_root_is_no_way_out() -> None:
    with pytest.raises(StackError, match=r"stack\.account is root"):
        unprivileged("root")


@pytest.mark.usefixtures("root")
def test_as_root_it_is_the_named_one() -> None:
    entry = pwd.getpwnam("nobody")
    assert unprivileged("nobody") == Account("nobody", entry.pw_uid, entry.pw_gid)


def test_a_user_runs_everything_as_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: pwd.getpwnam("nobody").pw_uid)
    found = unprivileged("some-account")
    assert found == Account("nobody", None, None)
    found.own(Path("/"))  # nothing to do, and nothing that could be done


@pytest.fixture
def everyones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "var" / "lib" / "headwater"
    monkeypatch.setattr(account_module.platformdirs, "site_state_dir", lambda _: str(folder))
    return folder


def opened(*folders: Path) -> None:
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        for each in (folder, *folder.parents):
            if each.stat().st_uid == os.geteuid() and each != Path("/"):
                each.chmod(each.stat().st_mode | 0o001)


def test_a_folder_that_the_account_may_enter_is_taken_as_it_is(tmp_path: Path, everyones: Path) -> None:
    opened(tmp_path / "stack")
    assert reachable(tmp_path / "stack" / "data", Account("nobody", 1, 1)) == tmp_path / "stack" / "data"
    assert not everyones.exists()


def test_inside_a_closed_folder_a_system_wide_one_stands_for_it(tmp_path: Path, everyones: Path) -> None:
    opened(tmp_path)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    stands = reachable(home / "stack" / "data", Account("nobody", 1, 1))
    assert stands.parent == everyones
    assert everyones.stat().st_mode & 0o001, "made so that the account may enter it"
    assert stands == reachable(home / "stack" / "data", Account("nobody", 1, 1)), "the next start finds it again"
    assert stands != reachable(home / "other" / "data", Account("nobody", 1, 1))
    assert reachable(home / "stack" / "data", Account("me")) == home / "stack" / "data", "who is no root enters it"


@as_root
def test_owning_reaches_everything_and_follows_no_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("root's")
    inside = tmp_path / "data" / "deep"
    inside.mkdir(parents=True)
    (inside / "file").write_text("x")
    (inside / "link").symlink_to(outside)
    account = unprivileged("nobody")
    account.own(tmp_path / "data")
    owned = (tmp_path / "data", inside, inside / "file", inside / "link")
    assert {path.lstat().st_uid for path in owned} == {account.uid}
    assert outside.stat().st_uid == 0
