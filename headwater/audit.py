"""Every administrative action leaves a trace: who, when, what, and how it ended.

    with audited(deployment, "rebuild", view=view) as action:
        …
        action.result = {"generation": 4}

The beginning is written before the action, so one that was killed half-way is known; the end says done or failed. A
verb never fails because of its trace: what the database cannot take now waits in a file (audit_store.py) and is brought
in with the next one. Secrets are not written: see `masked`.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from cdc.errors import HeadwaterError
from headwater.plain import plain
from headwater.settings.secrets import HIDDEN, is_sensitive, masked_url

if TYPE_CHECKING:
    from headwater.api.access import ApiKey
    from headwater.deployment import Deployment

BEGAN: Final = "began"
DONE: Final = "done"
FAILED: Final = "failed"
NOBODY: Final = "http:without a key"
TEXT_MAX: Final = 2_000
UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
"""What Postgres takes in no text: NUL, and the lone surrogates by which Python tells bytes of another encoding."""
REPLACED: Final = "\N{REPLACEMENT CHARACTER}"
_KEY: Final = re.compile(r"\b(hw_[0-9a-f]+)_[A-Za-z0-9_-]{8,}")


@dataclass(frozen=True, slots=True)
class Trace:
    """One row of the audit log."""

    action: str
    event: str
    at: datetime
    actor: str
    host: str
    verb: str
    arguments: Mapping[str, Any]
    reason: str = ""
    result: Any = None


@dataclass(slots=True)
class Action:
    """What an action says about itself while it runs."""

    id: str
    result: Any = None
    """What came of it, for JSON; kept with the end."""
    arguments: dict[str, Any] = field(default_factory=dict)


@contextmanager
def audited(deployment: Deployment, verb: str, /, actor: str = "", **arguments: Any) -> Iterator[Action]:
    """Traces the block. Arguments that were not given (None, empty, False) are left out."""
    from headwater.audit_store import keep

    action = Action(str(uuid.uuid4()), arguments=told(arguments))
    who, host = actor or os_actor(), socket.gethostname()

    def trace(event: str, reason: str = "") -> None:
        result = None if event == BEGAN or action.result is None else masked(plain(action.result))
        at = datetime.now(UTC)
        keep(deployment, Trace(action.id, event, at, who, host, verb, action.arguments, reason[:TEXT_MAX], result))

    trace(BEGAN)
    try:
        yield action
    except BaseException as error:
        code = getattr(error, "exit_code", None)  # typer.Exit: 0 is an end like any other
        trace(*((DONE, "") if code == 0 else (FAILED, reason_of(error))))
        raise
    trace(DONE)


def os_actor() -> str:
    """Who runs this process; behind sudo, who called it, too."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in containers
        name = str(os.getuid())
    behind = os.environ.get("SUDO_USER", "")
    return f"os:{name} (sudo by {behind})" if behind and behind != name else f"os:{name}"


def key_actor(key: ApiKey | None) -> str:
    """Who asks over HTTP."""
    if key is None:
        return NOBODY
    return f"key:{key.id} ({key.label})" if key.label else f"key:{key.id}"


def told(arguments: Mapping[str, object]) -> dict[str, Any]:
    """Arguments as they are kept: what was given, without secrets."""
    given = {name: plain(value) for name, value in arguments.items() if value or (value == 0 and value is not False)}
    return {name: HIDDEN if is_sensitive(name) else masked(value) for name, value in given.items()}


def masked(value: Any) -> Any:
    """Without the secrets that its texts may hold: API keys, passwords in URLs, whatever a name says is one."""
    if isinstance(value, dict):
        return {name: HIDDEN if is_sensitive(name) else masked(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [masked(inner) for inner in value]
    if not isinstance(value, str):
        return value
    text = masked_url(value) if re.match(r"[a-z][a-z0-9+]*://\S+$", value) else value
    return _KEY.sub(rf"\1_{HIDDEN}", text)[:TEXT_MAX]


def storable(value: Any) -> Any:
    """As Postgres takes it, with a mark in place of each character that it never takes."""
    if isinstance(value, Mapping):
        return {storable(name): storable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [storable(inner) for inner in value]
    return UNSTORABLE.sub(REPLACED, value) if isinstance(value, str) else value


def reason_of(error: BaseException) -> str:
    if isinstance(error, HeadwaterError):
        return str(masked(error.fact))
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return "interrupted"
    code = getattr(error, "exit_code", None)
    return type(error).__name__ if code is None else f"exit code {code}"
