"""Sections [kafka], [connect], [elasticsearch], [redis]: each embedded, or at an address of the user's.

A security setting that would be ignored (a password without SASL, a certificate without TLS, either without an
address) is refused, so that nobody believes in a protection that is not there.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, SecretStr, model_validator

from cdc.addresses import ConnectAddress, KafkaAddress
from headwater.settings.base import HTTP_SCHEMES, Bootstrap, LocalPath, Port, Section, is_set, refuse_without_address
from headwater.settings.secrets import SecretUrl, split_url

REDIS_SCHEMES: Final = ("redis", "rediss")
_SASL: Final = ("sasl_username", "sasl_password")
_SSL: Final = ("ssl_ca", "ssl_certificate", "ssl_key", "ssl_key_password")


def _http(url: SecretUrl) -> SecretUrl:
    if url:
        parts = split_url(url.get_secret_value(), HTTP_SCHEMES)
        if parts.username or parts.password:
            raise ValueError("holds a user or a password: give them as `user` and `password`")
        if parts.query:
            raise ValueError("must have no parameters")
    return url


def _redis(url: SecretUrl) -> SecretUrl:
    if url:
        split_url(url.get_secret_value(), REDIS_SCHEMES)
    return url


HttpUrl = Annotated[SecretUrl, AfterValidator(_http)]
RedisUrl = Annotated[SecretUrl, AfterValidator(_redis)]


def _refuse_ca_without_tls(title: str, url: SecretUrl, ca_file: str, scheme: str) -> None:
    if ca_file and not url.get_secret_value().startswith(f"{scheme}://"):
        raise ValueError(f"{title}.ca_file is set, but {title}.url does not begin with {scheme}://")


class KafkaSettings(Section):
    """The log's broker. Embedded when `bootstrap` is not given."""

    bootstrap: Bootstrap = Field(default="", description="HOST:PORT, several separated by commas; empty: embedded")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="How the broker is spoken to"
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        default="SCRAM-SHA-512", description="How to log in, when the protocol begins with SASL_"
    )
    sasl_username: str = Field(default="", description="The user, when the protocol begins with SASL_")
    sasl_password: SecretStr = Field(default=SecretStr(""), description="The password of `sasl_username`")
    ssl_ca: LocalPath = Field(default="", description="File of the authority that signed the brokers' certificates")
    ssl_certificate: LocalPath = Field(default="", description="File of the client's certificate")
    ssl_key: LocalPath = Field(default="", description="File of the client's key")
    ssl_key_password: SecretStr = Field(default=SecretStr(""), description="The password of `ssl_key`")

    @property
    def embedded(self) -> bool:
        return not self.bootstrap

    def address(self) -> KafkaAddress | None:
        """Where the brokers are, in librdkafka's words; None when Kafka is embedded."""
        if self.embedded:
            return None
        given = {
            "security.protocol": self.security_protocol,
            "sasl.mechanism": self.sasl_mechanism if self._sasl else "",
            "sasl.username": self.sasl_username,
            "sasl.password": self.sasl_password.get_secret_value(),
            "ssl.ca.location": self.ssl_ca,
            "ssl.certificate.location": self.ssl_certificate,
            "ssl.key.location": self.ssl_key,
            "ssl.key.password": self.ssl_key_password.get_secret_value(),
        }
        return KafkaAddress(self.bootstrap, tuple((name, value) for name, value in given.items() if value))

    @property
    def _sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    @model_validator(mode="after")
    def _check(self) -> KafkaSettings:
        if self.embedded:
            refuse_without_address(self, "kafka", "kafka.bootstrap", (*_SASL, *_SSL))
            if self.security_protocol != "PLAINTEXT":
                raise ValueError("kafka.security_protocol is set, but kafka is embedded: kafka.bootstrap is missing")
        self._check_pairs()
        return self

    def _check_pairs(self) -> None:
        for name in _SASL:
            if self._sasl != is_set(getattr(self, name)):
                state = "missing" if self._sasl else "set"
                raise ValueError(f"kafka.{name} is {state}, but kafka.security_protocol is {self.security_protocol}")
        idle = [name for name in _SSL if is_set(getattr(self, name))]
        if idle and not self.security_protocol.endswith("SSL"):
            raise ValueError(f"kafka.{idle[0]} is set, but kafka.security_protocol is {self.security_protocol}")
        if bool(self.ssl_certificate) != bool(self.ssl_key):
            raise ValueError("kafka.ssl_certificate and kafka.ssl_key go together: one of them is missing")


class ConnectSettings(Section):
    """Kafka Connect, in which Debezium runs. Embedded when `url` is not given."""

    url: HttpUrl = Field(default=SecretUrl(""), description="Its REST API, http(s)://HOST:PORT; empty: embedded")
    user: str = Field(default="", description="The user of the REST API, when it asks for one")
    password: SecretStr = Field(default=SecretStr(""), description="The password of `user`")
    ca_file: LocalPath = Field(default="", description="File of the authority that signed its certificate")
    group: str = Field(
        default="headwater-connect",
        pattern=r"^[A-Za-z0-9._-]{1,100}$",
        description="The group id of the embedded Connect, and the prefix of its own topics",
    )
    postgres_host: str = Field(default="", description="Postgres' host as Connect sees it, when it differs")
    postgres_port: Port | None = Field(default=None, description="Postgres' port as Connect sees it, when it differs")

    @property
    def embedded(self) -> bool:
        return not self.url

    def address(self) -> ConnectAddress | None:
        """Where the REST API is; None when Connect is embedded."""
        if self.embedded:
            return None
        url = self.url.get_secret_value().rstrip("/")
        return ConnectAddress(url, self.user, self.password.get_secret_value(), self.ca_file)

    @model_validator(mode="after")
    def _check(self) -> ConnectSettings:
        if self.embedded:
            refuse_without_address(self, "connect", "connect.url", ("user", "password", "ca_file"))
        if is_set(self.password) and not self.user:
            raise ValueError("connect.password is set, but connect.user is missing")
        _refuse_ca_without_tls("connect", self.url, self.ca_file, "https")
        return self


class ElasticsearchSettings(Section):
    """The search server. Embedded when `url` is not given."""

    url: HttpUrl = Field(default=SecretUrl(""), description="http(s)://HOST:PORT; empty: embedded")
    user: str = Field(default="", description="The user, when the server asks for one")
    password: SecretStr = Field(default=SecretStr(""), description="The password of `user`")
    api_key: SecretStr = Field(default=SecretStr(""), description="An encoded API key, instead of user and password")
    ca_file: LocalPath = Field(default="", description="File of the authority that signed its certificate")

    @property
    def embedded(self) -> bool:
        return not self.url

    @model_validator(mode="after")
    def _check(self) -> ElasticsearchSettings:
        if self.embedded:
            names = ("user", "password", "api_key", "ca_file")
            refuse_without_address(self, "elasticsearch", "elasticsearch.url", names)
        if is_set(self.api_key) and (self.user or is_set(self.password)):
            raise ValueError("elasticsearch.api_key and elasticsearch.user exclude each other: both are set")
        if is_set(self.password) != bool(self.user):
            raise ValueError("elasticsearch.user and elasticsearch.password go together: one of them is missing")
        _refuse_ca_without_tls("elasticsearch", self.url, self.ca_file, "https")
        return self


class RedisSettings(Section):
    """The cache. Embedded when `url` is not given."""

    url: RedisUrl = Field(
        default=SecretUrl(""),
        description="redis://USER:PASSWORD@HOST:PORT/NUMBER, or rediss:// for TLS; empty: embedded",
    )
    ca_file: LocalPath = Field(default="", description="File of the authority that signed its certificate")

    @property
    def embedded(self) -> bool:
        return not self.url

    @model_validator(mode="after")
    def _check(self) -> RedisSettings:
        _refuse_ca_without_tls("redis", self.url, self.ca_file, "rediss")
        return self
