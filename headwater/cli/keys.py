"""`headwater keys create|list|revoke`: who may read over HTTP. A key's text is printed once and kept nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cdc.errors import ConfigurationError, SourceError
from headwater.cli.output import JsonOption, line, print_json, table
from headwater.cli.source import acting

if TYPE_CHECKING:
    from headwater.api.access import ApiKey, KeyStore

UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
DAYS_MAX: Final = 36_500

ScopeOption = Annotated[
    list[str],
    typer.Option("--scope", metavar="SCOPE", help="read, alerts or admin (which may do all); may be repeated."),
]
LabelOption = Annotated[str, typer.Option("--label", metavar="TEXT", help="Whose it is, for people.")]
OwnerOption = Annotated[
    str,
    typer.Option(
        "--owner", metavar="OWNER", help="Whose saved searches it may touch; shop/* is all that begin so; else its own."
    ),
]
ExpiryOption = Annotated[
    str, typer.Option("--expires-in", metavar="TIME", help="30d, 12h, 90m or 2w from now; else it does not expire.")
]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="API keys: who may read over HTTP.")
    verbs.command("create")(create)
    verbs.command("list")(list_keys)
    verbs.command("revoke")(revoke)
    app.add_typer(verbs, name="keys")


def create(
    scope: ScopeOption = ["read"],  # noqa: B006 - typer copies it
    label: LabelOption = "",
    expires_in: ExpiryOption = "",
    owner: OwnerOption = "",
    as_json: JsonOption = False,
) -> None:
    """Make a key. Its text is on standard output, alone; it cannot be shown again."""
    now = datetime.now(UTC)
    expires_at = now + parse_time(expires_in) if expires_in else None
    with (
        acting("keys create", scopes=sorted(scope), label=label, expires_at=expires_at, owner=owner) as action,
        _store() as store,
    ):
        key, text = store.create(scope, label, expires_at, owner)
        action.result = {"id": key.id}
    if as_json:
        print_json({"key": text, **_object(key, now)})
        return
    until = f"until {_minute(key.expires_at)}" if key.expires_at else "without expiry"
    line(f"key {key.id} for {', '.join(key.scopes)}, {until}; keep the text, it is not shown again:", stderr=True)
    typer.echo(text)


def list_keys(as_json: JsonOption = False) -> None:
    """Every key that was ever made, without its text."""
    now = datetime.now(UTC)
    with _store() as store:
        keys = store.list()
    if as_json:
        print_json({"keys": [_object(key, now) for key in keys]})
        return
    rows = [
        (key.id, _state(key, now), ", ".join(key.scopes), _minute(key.created_at), _minute(key.expires_at), key.label)
        for key in keys
    ]
    styles = {"valid": "green", "expired": "dim", "revoked": "dim"}
    table(("key", "state", "scopes", "created", "expires", "label"), rows, styles=styles)


def revoke(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Its id, or its whole text.")],
    as_json: JsonOption = False,
) -> None:
    """Make a key worthless; the API notices within 5 s. A second time changes nothing."""
    id_ = key.split("_")[1] if key.startswith("hw_") else key
    with acting("keys revoke", id=id_), _store() as store:
        store.revoke(id_)
    if as_json:
        print_json({"id": id_, "state": "revoked"})
    else:
        line(f"key {id_} is revoked")


def parse_time(text: str) -> timedelta:
    """`30d`, `12h`, `90m`, `2w`: how long from now."""
    found = re.fullmatch(r"(\d{1,9})([mhdw])", text.strip())
    span = timedelta(**{UNITS[found[2]]: int(found[1])}) if found else timedelta()
    if not timedelta() < span <= timedelta(days=DAYS_MAX):
        raise ConfigurationError(
            f"not a time to expire in: {text!r}",
            detail=f"a number and m, h, d or w; at least 1m, at most {DAYS_MAX}d",
            hint="headwater keys create --expires-in 30d",
        )
    return span


@contextmanager
def _store() -> Iterator[KeyStore]:
    """Where the keys are. Raises SourceError where Headwater's schema is not there, or too old to have them."""
    from psycopg import errors

    from headwater.api.access import KeyStore
    from headwater.deployment import Deployment
    from headwater.settings import load

    address = Deployment.resolve(load()).postgres
    try:
        yield KeyStore(address)
    except (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName) as error:
        raise SourceError(
            f"database {address.database} has no table of keys yet",
            detail=str(error).strip().splitlines()[0],
            hint="headwater migrate up",
        ) from error


def _object(key: ApiKey, now: datetime) -> dict[str, object]:
    return {
        "id": key.id,
        "state": _state(key, now),
        "scopes": key.scopes,
        "label": key.label,
        "owner": key.owner,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
    }


def _state(key: ApiKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "valid" if key.is_valid(now) else "expired"


def _minute(at: datetime | None) -> str:
    return "" if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%MZ")
