"""The embedded Elasticsearch: the real server with its core modules, one node on loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import httpx

from cdc.errors import StackError
from headwater.stack.process import Command
from headwater.stack.site import Site

KEYSTORE_TIMEOUT_S: Final = 60
_STORED: Final = "password.stored"
_OPTIONS: Final = """-XX:+UseSerialGC
-Djava.security.manager=allow
-XX:+HeapDumpOnOutOfMemoryError
"""


class Elasticsearch:
    name = "elasticsearch"
    bundles = ("elasticsearch",)
    needs = ()

    def prepare(self, site: Site) -> None:
        """Configuration of its own beside the data: the unpacked server is shared and stays read-only."""
        folder, home = site.folder("elasticsearch"), site.installed["elasticsearch"]
        config = folder / "config"
        if not config.exists():
            shutil.copytree(home / "config", config)
        (config / "elasticsearch.yml").write_text("".join(f"{k}: {v}\n" for k, v in _settings(site).items()))
        (config / "jvm.options").write_text(_jvm_options(home / "config" / "jvm.options"))
        (folder / "tmp").mkdir(exist_ok=True)
        if not (config / _STORED).exists():
            _store_password(site)
            (config / _STORED).touch()
        site.account.own(folder)

    def command(self, site: Site) -> Command:
        folder, heap = site.folder("elasticsearch"), site.heap.elasticsearch_mb
        return Command(
            (str(site.installed["elasticsearch"] / "bin" / "elasticsearch"),),
            environment={**_environment(site), "ES_JAVA_OPTS": f"-Xms{heap}m -Xmx{heap}m"},
            folder=folder,
            account=site.account,
        )

    def ready(self, site: Site) -> bool:
        question = {"wait_for_status": "yellow", "timeout": "1s"}
        answer = httpx.get(f"{url(site)}/_cluster/health", params=question, auth=credentials(site), timeout=3)
        return bool(answer.status_code == httpx.codes.OK and not answer.json()["timed_out"])


def url(site: Site) -> str:
    return f"http://127.0.0.1:{site.state.ports['elasticsearch']}"


def credentials(site: Site) -> tuple[str, str]:
    return "elastic", site.state.secret("elasticsearch")


def _environment(site: Site) -> dict[str, str]:
    folder = site.folder("elasticsearch")
    return {
        "ES_JAVA_HOME": str(site.java.home),
        "ES_PATH_CONF": str(folder / "config"),
        "ES_TMPDIR": str(folder / "tmp"),
        "CLI_JAVA_OPTS": "-XX:+UseSerialGC -Xmx64m",
        "HOME": str(folder),
    }


def _store_password(site: Site) -> None:
    """The password of the built-in user `elastic`, kept in the server's own keystore; given on standard input."""
    (site.folder("elasticsearch") / "config" / "elasticsearch.keystore").unlink(missing_ok=True)  # perhaps half-made
    tool = str(site.installed["elasticsearch"] / "bin" / "elasticsearch-keystore")
    for words in (("create",), ("add", "--stdin", "bootstrap.password")):
        answer = subprocess.run(
            [tool, *words],
            input=site.state.secret("elasticsearch"), capture_output=True, text=True, check=False,
            env={**os.environ, **_environment(site)}, timeout=KEYSTORE_TIMEOUT_S,
        )  # fmt: skip
        if answer.returncode:
            raise StackError(
                "the embedded Elasticsearch could not store its password",
                detail=(answer.stdout + answer.stderr).strip()[-800:],
                hint="headwater doctor",
            )


def _settings(site: Site) -> dict[str, object]:
    folder = site.folder("elasticsearch")
    return {
        "cluster.name": "headwater",
        "node.name": "embedded",
        "discovery.type": "single-node",
        "network.host": "127.0.0.1",
        "http.port": site.state.ports["elasticsearch"],
        "transport.port": site.state.ports["elasticsearch_transport"],
        "path.data": folder / "data",
        "path.logs": folder / "logs",
        "xpack.security.enabled": "true",
        "xpack.security.autoconfiguration.enabled": "false",
        "xpack.security.http.ssl.enabled": "false",
        "xpack.security.transport.ssl.enabled": "false",
        "action.auto_create_index": "false",
        # Otherwise garbage counts as memory in use, and the serial collector leaves it until the heap is full: requests
        # were refused for it while an index of a million rows was rebuilt.
        "indices.breaker.total.use_real_memory": "false",
        "cluster.routing.allocation.disk.watermark.low": "2gb",
        "cluster.routing.allocation.disk.watermark.high": "1gb",
        "cluster.routing.allocation.disk.watermark.flood_stage": "500mb",
    }


def _jvm_options(shipped: Path) -> str:
    """The shipped options less those that write beside the read-only server or choose another collector."""
    lines = shipped.read_text().splitlines()
    unwanted = ("Xlog:gc", "ErrorFile", "HeapDumpPath", "UseG1GC", "Xms", "Xmx", "G1")
    kept = [line for line in lines if line and not line.startswith("#") and not any(u in line for u in unwanted)]
    return "\n".join(kept) + "\n" + _OPTIONS
