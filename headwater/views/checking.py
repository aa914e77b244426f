"""Is a generation what its view is, and the view what its SQL gives in Postgres? Asked before readers go over to it.

`check` compares here; `check_apart` in a process of its own: a million rows are in memory while they are compared, and
the process that keeps the views has other things to do.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from cdc.errors import ViewError
from headwater.audit import os_actor
from headwater.views.kept import Frontiers, open_view
from headwater.views.verify import Verified, Verifier
from headwater.views.verify_history import VIEW, VerifyHistory, VerifyRun, Why, now_us
from headwater.views.verify_sinks import SinkVerified, verify_sink
from headwater.views.verify_view import result_of_keys, result_of_view
from views.maintain.publisher import view_topic
from views.rebuild import Checked
from views.sinks.following import ViewTopic

if TYPE_CHECKING:
    from cdc.addresses import KafkaAddress, PostgresAddress, Source
    from views.maintain.registry import Registry
    from views.sinks.sink import SinkKind

TIMEOUT_S: Final = 6 * 3600.0


def check(
    postgres: PostgresAddress,
    kafka: KafkaAddress,
    source: Source,
    registry: Registry,
    kind: SinkKind,
    view: str,
    number: int,
) -> Checked:
    """Every row, twice: the generation with the view's topic, the view with Postgres. Put down in the history."""
    began_at_us, began = now_us(), time.monotonic()
    kept = open_view(registry, Frontiers(kafka, source).look(), view)
    sink = kind.open(kept.group.shape(view, source), number)
    try:
        sunk = verify_sink(kind.name, sink, kept.store, ViewTopic(kafka, view_topic(source, view)))
    finally:
        sink.close()
    found = Verifier(postgres, kafka, source, registry).verify(view)
    results = (
        result_of_view(found),
        result_of_keys(f"{kind.name} (generation {number})", sunk.rows, sunk.wrong, sunk.lsn, number),
    )
    run = VerifyRun(view, Why.SWITCH, os_actor(), began_at_us, time.monotonic() - began, results)
    VerifyHistory(registry.folder).add(run, {VIEW: found.wrong})
    if found.unsettled and sunk.is_equal and not any(found.counts.values()):
        raise ViewError(  # no verdict: it is tried again
            f"{found.unsettled:,} rows of {view} changed too often to be compared",
            hint=f"headwater verify {view} --lock",
        )
    return checked(found, sunk)


def checked(found: Verified, sunk: SinkVerified) -> Checked:
    different = sunk.missing + sunk.extra + sunk.different
    counts = {kind.value: count for kind, count in found.counts.items() if count}
    told = [f"{count:,} rows of the view are {kind} in Postgres" for kind, count in counts.items()]
    told += [f"{different:,} rows of the {sunk.sink} differ: {', '.join(sunk.examples)}"] if different else []
    is_equal = found.is_equal and sunk.is_equal
    return Checked(is_equal, sunk.rows, different + sum(counts.values()), str(found.lsn), "; ".join(told))


def check_apart(view: str, sink: str, number: int) -> Checked:
    """`headwater verify VIEW --generation N`, with the precedence of the views: whatever serves people goes before."""
    asked = ["-m", "headwater", "verify", view, "--sink", sink, "--generation", str(number), "--json"]
    # By a program, not in a fork: this process has Spark's threads and sockets.
    ran = subprocess.run([sys.executable, *asked], capture_output=True, timeout=TIMEOUT_S, check=False)
    told = _told(ran.stdout)
    if "checked" not in told:
        error = told.get("error") or {}
        raise ViewError(
            error.get("fact") or f"generation {number} of the {sink} of {view} could not be verified",
            detail=error.get("detail") or f"exit code {ran.returncode}: {ran.stderr.decode(errors='replace')[-400:]}",
            hint=error.get("hint") or f"headwater verify {view} --sink {sink} --generation {number}",
        )
    return Checked(**told["checked"])


def _told(output: bytes) -> dict[str, Any]:
    try:
        found = json.loads(output)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
