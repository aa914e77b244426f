"""The embedded Postgres: logical WAL, a capped slot, SCRAM passwords, loopback only."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil
import psycopg

from cdc.addresses import PostgresAddress
from cdc.errors import StackError
from headwater.stack.process import Command
from headwater.stack.site import Site

INITDB_TIMEOUT_S: Final = 120
ORPHANS_TIMEOUT_S: Final = 10


class Postgres:
    name = "postgres"
    bundles = ("postgres",)
    needs = ()

    def prepare(self, site: Site) -> None:
        """Also after a kill -9 of the server: its lock file may by now name the pid of somebody else, and a session of
        it that was busy lives on, in a process group of its own, and keeps the next server from starting."""
        data = self._data(site)
        if not (data / "PG_VERSION").exists():
            _initdb(site, data)
        _own_data(site, data)
        _end_orphans(data)
        (data / "postmaster.pid").unlink(missing_ok=True)

    def command(self, site: Site) -> Command:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(site.state.ports["postgres"]),
            "unix_socket_directories": "",
            "wal_level": "logical",
            "max_wal_senders": "20",
            "max_replication_slots": "20",
            "max_slot_wal_keep_size": f"{site.wal_keep_max_mb}MB",
            "max_connections": "120",
            "shared_buffers": "128MB",
            "max_wal_size": "2GB",
            "log_min_messages": "warning",
            "timezone": "UTC",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return Command(
            (str(site.installed["postgres"] / "bin" / "postgres"), "-D", str(self._data(site)), *options),
            account=site.account,
            folder=self._data(site),
            stop_signal=signal.SIGINT,  # fast shutdown: open sessions are ended
        )

    def ready(self, site: Site) -> bool:
        with psycopg.connect(address(site).conninfo(), connect_timeout=2) as connection:
            return connection.execute("select 1").fetchone() == (1,)

    def _data(self, site: Site) -> Path:
        return site.folder("postgres") / "data"


def address(site: Site) -> PostgresAddress:
    return PostgresAddress(
        "127.0.0.1", site.state.ports["postgres"], "postgres", "postgres", site.state.secret("postgres")
    )


def _initdb(site: Site, data: Path) -> None:
    """Into a temporary name first: a kill in the middle leaves nothing that looks like a cluster."""
    folder = site.folder("postgres")
    site.account.own(folder)
    shutil.rmtree(f"{data}.new", ignore_errors=True)
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".password") as password:
        password.write(site.state.secret("postgres"))
        password.flush()
        os.chmod(password.name, 0o644 if site.account.uid is not None else 0o600)
        answer = subprocess.run(
            [
                str(site.installed["postgres"] / "bin" / "initdb"), "-D", f"{data}.new", "-U", "postgres",
                "-A", "scram-sha-256", f"--pwfile={password.name}", "-E", "UTF8", "--locale=C",
            ],
            capture_output=True, text=True, check=False, cwd=folder, timeout=INITDB_TIMEOUT_S,
            user=site.account.uid, group=site.account.gid,
            extra_groups=[] if site.account.gid is not None else None,
        )  # fmt: skip
    if answer.returncode:
        raise StackError(
            "the embedded Postgres could not make its data folder",
            detail=answer.stderr.strip()[-800:],
            hint="headwater doctor",
        )
    Path(f"{data}.new").replace(data)


def _own_data(site: Site, data: Path) -> None:
    """Postgres insists on owning its data: the account may be another one than the last time."""
    if site.account.uid is not None and data.stat().st_uid != site.account.uid:
        site.account.own(site.folder("postgres"))


def _end_orphans(data: Path) -> None:
    orphans = [process for process in psutil.process_iter() if _works_in(process, data)]
    for orphan in orphans:
        with suppress(psutil.NoSuchProcess):
            orphan.kill()
    psutil.wait_procs(orphans, ORPHANS_TIMEOUT_S)


def _works_in(process: psutil.Process, data: Path) -> bool:
    try:
        return process.name() == "postgres" and Path(process.cwd()) == data.resolve()
    except psutil.Error:
        return False
