"""Postgres and Elasticsearch refuse to run as root: as root (containers, CI) they run under an unprivileged account."""

from __future__ import annotations

import hashlib
import os
import pwd
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from cdc.errors import StackError


@dataclass(frozen=True, slots=True)
class Account:
    """Who a server runs as; uid and gid are None where nothing has to change."""

    name: str
    uid: int | None = None
    gid: int | None = None

    def own(self, path: Path) -> None:
        """Makes the account the owner of the folder and of all that is in it."""
        if self.uid is None or self.gid is None:
            return
        os.chown(path, self.uid, self.gid)
        for folder, folders, files in os.walk(path):
            for name in (*folders, *files):
                os.chown(Path(folder, name), self.uid, self.gid, follow_symlinks=False)


def unprivileged(name: str) -> Account:
    """The account for servers that refuse root; ourselves, unless we are root."""
    if os.geteuid() != 0:
        return Account(pwd.getpwuid(os.geteuid()).pw_name)
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise StackError(
            f"there is no account {name!r} to run Postgres and Elasticsearch under",
            detail="both refuse to run as root",
            hint=f"create it (useradd --system {name}), or set stack.account to one that exists",
        ) from None
    if entry.pw_uid == 0:
        raise StackError(
            "stack.account is root", detail="Postgres and Elasticsearch refuse it", hint="stack.account = 'nobody'"
        )
    return Account(name, entry.pw_uid, entry.pw_gid)


def reachable(folder: Path, account: Account) -> Path:
    """The folder itself, or, where the account may not enter it (root's home), a system-wide one standing for it."""
    folder = folder.resolve()
    if account.uid is None or all(_may_enter(parent) for parent in folder.parents if parent.exists()):
        return folder
    digest = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    everyones = Path(platformdirs.site_state_dir("headwater"))
    everyones.mkdir(parents=True, exist_ok=True)
    everyones.chmod(0o755)
    return everyones / digest


def _may_enter(folder: Path) -> bool:
    return bool(folder.stat().st_mode & 0o001)
