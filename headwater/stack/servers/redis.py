"""The embedded Redis: a password, an append-only file, loopback only."""

from __future__ import annotations

from urllib.parse import quote

import redis

from headwater.stack.process import Command
from headwater.stack.site import Site


class Redis:
    name = "redis"
    bundles = ("redis",)
    needs = ()

    def prepare(self, site: Site) -> None:
        """The password goes into a file: the command line is visible to everybody on the machine."""
        file = site.folder("redis") / "redis.conf"
        file.touch(mode=0o600)
        settings = {
            "bind": "127.0.0.1",
            "port": site.state.ports["redis"],
            "requirepass": _quoted(site.state.secret("redis")),
            "dir": _quoted(str(site.folder("redis"))),
            "appendonly": "yes",
            "save": '""',
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
        }
        file.write_text("".join(f"{k} {v}\n" for k, v in settings.items()))

    def command(self, site: Site) -> Command:
        binary = str(site.installed["redis"] / "redis-server")
        return Command((binary, str(site.folder("redis") / "redis.conf")), folder=site.folder("redis"))

    def ready(self, site: Site) -> bool:
        with redis.Redis.from_url(url(site), socket_timeout=2) as client:
            return bool(client.ping())


def _quoted(text: str) -> str:
    """As its configuration file wants it: a folder's name may hold spaces."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def url(site: Site) -> str:
    return f"redis://:{quote(site.state.secret('redis'), safe='')}@127.0.0.1:{site.state.ports['redis']}/0"
