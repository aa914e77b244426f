"""Section [postgres]: the captured database, embedded or the user's own.

The address comes from `url`, from the single parts, or from both as long as no part is given twice: a URL in the file
and the password in the environment is the usual way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Literal
from urllib.parse import SplitResult, parse_qsl, unquote

from pydantic import AfterValidator, Field, SecretStr, model_validator

from cdc.addresses import PostgresAddress
from headwater.settings.base import LocalPath, Port, Section, is_set, refuse_without_address
from headwater.settings.secrets import SecretUrl, split_url

SCHEMES: Final = ("postgresql", "postgres")
PORT_DEFAULT: Final = 5432
_NOT_IN_QUERY: Final = ("host", "hostaddr", "port", "dbname", "user", "password", "passfile", "service")
_SSL: Final = ("sslmode", "sslrootcert", "sslcert", "sslkey")


def _checked(url: SecretUrl) -> SecretUrl:
    if url:
        parts = split_url(url.get_secret_value(), SCHEMES)
        odd = [name for name, _ in parse_qsl(parts.query) if name in _NOT_IN_QUERY]
        if odd:
            raise ValueError(
                f"has {odd[0]} among its parameters: write it in its place, USER:PASSWORD@HOST:PORT/DATABASE"
            )
    return url


class PostgresSettings(Section):
    """The captured database. Embedded when neither `url` nor `host` is given."""

    url: Annotated[SecretUrl, AfterValidator(_checked)] = Field(
        default=SecretUrl(""), description="postgresql://USER:PASSWORD@HOST:PORT/DATABASE; empty with no host: embedded"
    )
    host: str = Field(default="", description="The server's host, instead of `url`")
    port: Port | None = Field(default=None, description="The server's port; 5432 when not given")
    database: str = Field(default="", description="The database to capture")
    user: str = Field(
        default="", description="Who migrates, makes the publication and the capture role, and runs the checks"
    )
    password: SecretStr = Field(default=SecretStr(""), description="The password of `user`")
    sslmode: Literal["", "disable", "allow", "prefer", "require", "verify-ca", "verify-full"] = Field(
        default="", description="As libpq has it; empty: libpq's own default"
    )
    sslrootcert: LocalPath = Field(default="", description="File of the authority that signed the server's certificate")
    sslcert: LocalPath = Field(default="", description="File of the client's certificate")
    sslkey: LocalPath = Field(default="", description="File of the client's key")
    capture_user: str = Field(
        default="", description="The least-privilege role with which Debezium connects; empty: the same as `user`"
    )
    capture_password: SecretStr = Field(default=SecretStr(""), description="The password of `capture_user`")

    @property
    def embedded(self) -> bool:
        return not self.url and not self.host

    def address(self) -> PostgresAddress | None:
        """Where the database is, as `user`; None when it is embedded."""
        if self.embedded:
            return None
        if not self.url:
            return self._with_parts(PostgresAddress("", PORT_DEFAULT, "", ""))
        return self._with_parts(_from_url(split_url(self.url.get_secret_value(), SCHEMES)))

    def capture_address(self) -> PostgresAddress | None:
        """The same database as the capture role; None when it is embedded."""
        address = self.address()
        if address is None or not self.capture_user:
            return address
        return replace(address, user=self.capture_user, password=self.capture_password.get_secret_value())

    def _with_parts(self, address: PostgresAddress) -> PostgresAddress:
        """The parts given by themselves, over those of the URL; which never overlap, see `_check`."""
        options = tuple((name, str(getattr(self, name))) for name in _SSL if getattr(self, name))
        return PostgresAddress(
            host=self.host or address.host,
            port=self.port or address.port,
            database=self.database or address.database,
            user=self.user or address.user,
            password=self.password.get_secret_value() or address.password,
            options=address.options + options,
        )

    @model_validator(mode="after")
    def _check(self) -> PostgresSettings:
        if is_set(self.capture_password) and not self.capture_user:
            raise ValueError("postgres.capture_password is set, but postgres.capture_user is missing")
        if self.embedded:
            parts = ("port", "database", "user", "password", *_SSL, "capture_user")
            refuse_without_address(self, "postgres", "postgres.url or postgres.host", parts)
            return self
        self._check_not_twice()
        address = self.address()
        for name in ("database", "user"):
            if not getattr(address, name):
                raise ValueError(f"postgres.{name} is missing: neither postgres.url nor postgres.{name} gives it")
        return self

    def _check_not_twice(self) -> None:
        if not self.url:
            return
        parts = split_url(self.url.get_secret_value(), SCHEMES)
        inside = _from_url(parts)
        twice = [
            name for name in ("database", "user", "password") if getattr(inside, name) and is_set(getattr(self, name))
        ]
        twice += [name for name, _ in inside.options if name in _SSL and getattr(self, name)]
        twice += ["host"] if self.host else []
        twice += ["port"] if self.port and parts.port else []
        if twice:
            raise ValueError(f"postgres.{twice[0]} is given twice: in postgres.url and by itself")


def _from_url(parts: SplitResult) -> PostgresAddress:
    host = parts.hostname or ""
    return PostgresAddress(
        # An IPv6 address keeps its brackets: libpq's URI and JDBC's both want them.
        host=f"[{host}]" if ":" in host else host,
        port=parts.port or PORT_DEFAULT,
        database=unquote(parts.path.lstrip("/")),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        options=tuple(parse_qsl(parts.query)),
    )
