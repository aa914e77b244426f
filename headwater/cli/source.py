"""The source database for verbs that only ask or tell it something. Times are shown in UTC."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

    from headwater.audit import Action


@contextmanager
def connected_source() -> Iterator[psycopg.Connection]:
    from headwater.deployment import Deployment
    from headwater.saved_searches import connected
    from headwater.settings import load

    with connected(Deployment.resolve(load()).postgres) as conn:
        conn.execute("set time zone 'UTC'")
        yield conn


@contextmanager
def acting(verb: str, **arguments: Any) -> Iterator[Action]:
    """Around what a verb changes: the audit log tells of it."""
    from headwater.audit import audited
    from headwater.deployment import Deployment
    from headwater.settings import load

    with audited(Deployment.resolve(load()), verb, **arguments) as action:
        yield action
