"""What the sections of the settings share: strictness, kinds of values, and the mark of a path.

A section is frozen, knows no other keys than its fields, and keeps what was written out of its errors.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from headwater.settings.secrets import SecretUrl

HTTP_SCHEMES: Final = ("http", "https")
_HOST_PORT: Final = re.compile(r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})$")


class Section(BaseModel):
    """One table of headwater.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False)

    def secrets(self) -> list[str]:
        """Every secret text in it, so that messages of other libraries can be cleared of them."""
        found: list[str] = []
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, SecretStr):
                found.append(value.get_secret_value())
            elif isinstance(value, SecretUrl):
                found += [value.get_secret_value(), *value.passwords()]
        return [secret for secret in found if secret]


class PathMark:
    """Marks a setting as a path: in the file it is relative to the file's folder, elsewhere to the current folder."""


PATH: Final = PathMark()
LocalPath = Annotated[str, PATH]
Port = Annotated[int, Field(ge=1, le=65_535)]


def _bootstrap(text: str) -> str:
    servers = [server.strip() for server in text.split(",")] if text else []
    for server in servers:
        found = _HOST_PORT.match(server)
        if not found or not 1 <= int(found[2]) <= 65_535:
            raise ValueError("must be written HOST:PORT, several of them separated by commas")
    return ",".join(servers)


Bootstrap = Annotated[str, AfterValidator(_bootstrap)]


def is_set(value: object) -> bool:
    """Whether a person gave a value: an empty text or secret counts as not given."""
    if isinstance(value, SecretStr):
        return bool(value.get_secret_value())
    return bool(value)


def refuse_without_address(section: Section, title: str, needed: str, names: tuple[str, ...]) -> None:
    """A password or a certificate for a server that we start ourselves would be ignored: say so instead."""
    idle = [name for name in names if is_set(getattr(section, name))]
    if idle:
        raise ValueError(f"{title}.{idle[0]} is set, but {title} is embedded: {needed} is missing")
