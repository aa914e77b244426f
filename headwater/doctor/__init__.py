"""The doctor: everything that can be known to be wrong before it goes wrong. Every check reads only.

A check is one small function from the settings to its findings, and one line in CHECKS. A check that itself breaks is a
finding too, and does not keep the others from being made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from cdc.errors import HeadwaterError
from cdc.findings import Finding
from headwater.doctor import machine, servers
from headwater.settings import Settings

Check: TypeAlias = Callable[[Settings], list[Finding]]

CHECKS: Final[tuple[Check, ...]] = (
    machine.python,
    machine.packages,
    machine.java,
    machine.cpus,
    machine.memory,
    machine.disk,
    machine.http_port,
    machine.account,
    machine.files,
    servers.postgres,
    servers.kafka,
    servers.connect,
    servers.elasticsearch,
    servers.redis,
)


def examine(settings: Settings, checks: Sequence[Check] = CHECKS) -> list[Finding]:
    """All findings, in the order of the checks."""
    return [finding for check in checks for finding in _made(check, settings)]


def _made(check: Check, settings: Settings) -> list[Finding]:
    name = check.__name__.replace("_", " ")
    try:
        return check(settings)
    except HeadwaterError as error:
        detail = error.summary
        return [Finding("fail", name, detail, error.hint)]
    except Exception as error:
        told = " ".join(str(error).split())
        return [
            Finding("fail", name, f"the check broke: {type(error).__name__}: {told}", "HEADWATER_DEBUG=1; report it")
        ]
