"""Sections [delivery], [webhook], [mail]: how alerts leave the house, and where they may go."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr, model_validator

from alerts.channels.channel import TargetRefused
from alerts.channels.mail_message import checked_address
from alerts.channels.public_addresses import Opening
from cdc.errors import ConfigurationError
from headwater.settings.base import LocalPath, Port, Section, is_set


def _openings(text: str) -> str:
    parts = _parts(text)
    try:
        for part in parts:
            Opening.parse(part)
    except ConfigurationError:
        raise ValueError("must be written ADDRESS:PORT or NETWORK:PORT, separated by commas") from None
    return ",".join(parts)


def _ports(text: str) -> str:
    parts = _parts(text)
    if not parts or not all(part.isdigit() and 1 <= int(part) <= 65_535 for part in parts):
        raise ValueError("must be ports, separated by commas")
    return ",".join(parts)


def _sender(text: str) -> str:
    try:
        return checked_address(text) if text else ""
    except TargetRefused:
        raise ValueError("must be one mail address, without a name") from None


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


class DeliverySettings(Section):
    """Bringing alerts to people: how much at once."""

    attempts_max: int = Field(default=400, ge=1, le=10_000, description="Attempts that run at once; each has a socket")
    untried_attempts_max: int = Field(
        default=200, ge=1, le=10_000, description="Of those, to endpoints that were not tried yet"
    )
    failing_attempts_max: int = Field(
        default=50, ge=1, le=10_000, description="Of those, to endpoints whose last attempt failed"
    )
    endpoint_attempts_max: int = Field(default=4, ge=1, le=100, description="Attempts at once to one endpoint")
    attempt_timeout_s: int = Field(default=30, ge=1, le=300, description="An attempt is given up after this time")


class WebhookSettings(Section):
    """Webhooks: where they may go. The machine that calls them stands inside your network."""

    ports: Annotated[str, AfterValidator(_ports)] = Field(
        default="443", description="Ports of public addresses that may be called, separated by commas"
    )
    openings: Annotated[str, AfterValidator(_openings)] = Field(
        default="",
        description="Addresses inside that may be called all the same, also without TLS: ADDRESS:PORT or NETWORK:PORT "
        "(PORT may be *), separated by commas",
    )
    timeout_s: int = Field(default=15, ge=1, le=60, description="How long an endpoint may take to answer")

    disable_after_days: int = Field(
        default=5, ge=0, le=365, description="An endpoint that only failed for so long is switched off; 0: never"
    )

    def listed_ports(self) -> tuple[int, ...]:
        return tuple(int(part) for part in _parts(self.ports))

    def listed_openings(self) -> tuple[Opening, ...]:
        return tuple(Opening.parse(part) for part in _parts(self.openings))


class MailSettings(Section):
    """E-mail. There is none when `host` is not given."""

    host: str = Field(default="", description="The SMTP server; empty: no mail is sent")
    port: Port = Field(default=587, description="Its port")
    security: Literal["starttls", "tls", "none"] = Field(
        default="starttls", description="How the connection is encrypted; never falls back to none by itself"
    )
    user: str = Field(default="", description="The user, when the server asks for one")
    password: SecretStr = Field(default=SecretStr(""), description="The password of `user`")
    ca_file: LocalPath = Field(default="", description="File of the authority that signed its certificate")
    sender: Annotated[str, AfterValidator(_sender)] = Field(default="", description="The address mails come from")
    sender_name: str = Field(
        default="Headwater", max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$", description="The name beside it"
    )
    timeout_s: int = Field(default=15, ge=1, le=120, description="For each step of the conversation")

    @model_validator(mode="after")
    def _check(self) -> MailSettings:
        if not self.host:
            names = ("user", "password", "ca_file", "sender")
            idle = [name for name in names if is_set(getattr(self, name))]
            if idle:
                raise ValueError(f"mail.{idle[0]} is set, but mail.host is missing")
            return self
        if not self.sender:
            raise ValueError("mail.host is set, but mail.sender is missing")
        if bool(self.user) != is_set(self.password):
            raise ValueError("mail.user and mail.password go together: one of them is missing")
        return self
