"""Is a generation what its view is, and the view what its SQL gives in Postgres? Asked before readers go over to it.

`check` compares here; `check_apart` in a process of its own: the process that keeps the views has
other things to do. `verify_apart` is the same for a view as it is read, for those
who serve and watch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cdc.errors import ViewError
from headwater.audit import os_actor
from headwater.views.kept import Frontiers, open_view
from headwater.views.verify import Verified, Verifier
from headwater.views.verify_history import VIEW, VerifyHistory, VerifyRun, Why, now_us
from headwater.views.verify_sinks import SinkVerified, allowed, verify_sink
from headwater.views.verify_unshown import UnshownVerifier
from headwater.views.verify_view import Asking, result_of_keys, result_of_view
from views.maintain.publisher import view_topic
from views.rebuild import Checked
from views.sinks.following import ViewTopic
from views.sinks.letters import held_keys

if TYPE_CHECKING:
    from cdc.addresses import KafkaAddress, PostgresAddress, Source
    from views.maintain.registry import Registry
    from views.sinks.sink import SinkKind

TIMEOUT_S: Final = 6 * 3600.0
POLL_S: Final = 0.5
COMPUTED: Final = "computed, not read yet"


def check(
    postgres: PostgresAddress,
    kafka: KafkaAddress,
    source: Source,
    registry: Registry,
    kind: SinkKind,
    view: str,
    number: int,
) -> Checked:
    """Every row, twice: the generation with the view's topic, the view with Postgres. Put down in the history.

    Keys that dead letters hold are told and do not fail it: what a place refuses it would refuse in any generation."""
    began_at_us, began = now_us(), time.monotonic()
    kept = open_view(registry, Frontiers(kafka, source).look(), view)
    sink = kind.open(kept.group.shape(view, source), number)
    try:
        sunk = verify_sink(
            kind.name,
            sink,
            kept.store,
            ViewTopic(kafka, view_topic(source, view)),
            allowed=allowed(kind.name, kept.group.declared[view].options),
            held=lambda: held_keys(kafka, source, view, kind.name, number),
        )
    finally:
        sink.close()
    found = Verifier(postgres, kafka, source, registry).verify(view)
    results = (
        result_of_view(found),
        result_of_keys(f"{kind.name} (generation {number})", sunk.rows, sunk.wrong, sunk.lsn, number),
    )
    run = VerifyRun(view, Why.SWITCH, os_actor(), began_at_us, time.monotonic() - began, results)
    VerifyHistory(registry.folder).add(run, {VIEW: found.wrong})
    if sunk.is_equal:
        _require_settled(found)
    return checked(found, sunk)


def check_computed(
    postgres: PostgresAddress, kafka: KafkaAddress, source: Source, registry: Registry, view: str, group: str
) -> Checked:
    """Every row that a group has computed of a view, and that nobody reads yet, with Postgres. Put down in the history;
    what is wrong there is not wrong for readers."""
    began_at_us, began = now_us(), time.monotonic()
    found = UnshownVerifier(postgres, kafka, source, registry, group=group).verify(view)
    result = msgspec.structs.replace(result_of_view(found), place=COMPUTED)
    run = VerifyRun(view, Why.SWITCH, os_actor(), began_at_us, time.monotonic() - began, (result,))
    VerifyHistory(registry.folder).add(run, looked=())
    _require_settled(found)
    return computed_checked(found)


def _require_settled(found: Verified) -> None:
    if found.unsettled and not any(found.counts.values()):
        raise ViewError(  # no verdict: it is tried again
            f"{found.unsettled:,} rows of {found.view} changed too often to be compared",
            hint=f"headwater verify {found.view} --lock",
        )


def _told_of(found: Verified) -> tuple[list[str], int]:
    counts = {kind.value: count for kind, count in found.counts.items() if count}
    return [f"{count:,} rows of the view are {kind} in Postgres" for kind, count in counts.items()], sum(
        counts.values()
    )


def computed_checked(found: Verified) -> Checked:
    told, different = _told_of(found)
    return Checked(found.is_equal, found.rows_view, different, str(found.lsn), _detail(found.view, told, different))


def checked(found: Verified, sunk: SinkVerified) -> Checked:
    different = sunk.missing + sunk.extra + sunk.different
    told, wrong = _told_of(found)
    told += [f"{different:,} rows of the {sunk.sink} differ"] if different else []
    told += [f"{sunk.held:,} rows of the {sunk.sink} are held by dead letters"] if sunk.held else []
    is_equal = found.is_equal and sunk.is_equal
    detail = _detail(found.view, told, different + wrong)
    return Checked(is_equal, sunk.rows, different + wrong, str(found.lsn), detail)


def _detail(view: str, told: Sequence[str], wrong: int) -> str:
    """Without keys: it is kept with the rebuild and its generation, where no erasure looks for a person. In the history
    they are erased."""
    return "; ".join([*told, *([f"which: headwater verify {view} --history --json"] if wrong else [])])


def check_apart(view: str, sink: str, number: int, stop: threading.Event) -> Checked:
    """`headwater verify VIEW --generation N`, with the precedence of the views: whatever serves people goes before.
    Raises ViewError when it cannot be told, also because of `stop`."""
    told = _apart("checked", ["verify", view, "--sink", sink, "--generation", str(number)], stop=stop)
    return Checked(**told["checked"])


def check_computed_apart(view: str, group: str, stop: threading.Event) -> Checked:
    """The same for what a group has computed and nobody reads yet."""
    return Checked(**_apart("checked", ["verify", view, "--group", group], stop=stop)["checked"])


def verify_apart(view: str, asking: Asking, niceness: int = 0, stop: threading.Event | None = None) -> bool:
    """`headwater verify VIEW`, put down in the history as asked: whether all is equal. Raises ViewError when it cannot
    be told, also because of `stop`."""
    asked = ["verify", view, "--why", asking.why.value, "--by", asking.by]
    return bool(_apart("is_equal", asked, niceness, stop)["is_equal"])


def _apart(
    wanted: str, arguments: Sequence[str], niceness: int = 0, stop: threading.Event | None = None
) -> dict[str, Any]:
    """What a verb of ours answers. By a program, not in a fork: this process has threads and sockets."""
    command = [sys.executable, "-m", "headwater", *arguments, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        if niceness:
            with suppress(OSError):  # it has ended already, or gives way more than that
                os.setpriority(os.PRIO_PROCESS, child.pid, niceness)
        output, errors = _output(child, stop or threading.Event())
    told = _told(output)
    if wanted not in told:
        error = told.get("error") or {}
        raise ViewError(
            error.get("fact") or "it could not be verified",
            detail=error.get("detail") or f"exit code {child.returncode}: {errors.decode(errors='replace')[-400:]}",
            hint=error.get("hint") or f"headwater {' '.join(arguments)}",
        )
    return told


def _output(child: subprocess.Popen[bytes], stop: threading.Event) -> tuple[bytes, bytes]:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return child.communicate(timeout=POLL_S)
        except subprocess.TimeoutExpired:
            if stop.is_set() or time.monotonic() > deadline:
                child.kill()


def _told(output: bytes) -> dict[str, Any]:
    try:
        found = json.loads(output)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
