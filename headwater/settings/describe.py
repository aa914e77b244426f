"""The settings for people: the effective values with their origin, and the reference page docs/settings.md.

Both are made from the model, so neither can leave a setting out. Secrets come out as ***.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import SecretStr

from headwater.settings.fields import SettingField, fields, sections
from headwater.settings.load import Loaded
from headwater.settings.secrets import HIDDEN, SecretUrl, is_sensitive

_INTRODUCTION: Final = """\
# Settings

Made by `headwater config docs`; do not edit it by hand.

Settings come from `headwater.toml` in the current folder (or `headwater --config FILE`, or the file that
`HEADWATER_CONFIG` names) and from environment variables, which win over the file. An empty variable counts as not set.
A relative path in the file is relative to the file's folder, in a variable to the current folder. A key that is not
listed here is an error. `headwater config show` prints what is in force and where it comes from; secrets as `***`.

```toml
source = "shop"
tables = ["public.*"]

[postgres]
url = "postgresql://headwater@db.example.com:5432/shop"
sslmode = "verify-full"
```

The password of this example stands in `HEADWATER_POSTGRES__PASSWORD`.
"""


@dataclass(frozen=True)
class Effective:
    """One setting in force."""

    name: str
    value: object
    origin: str
    """default, file, or the environment variable."""


def effective(loaded: Loaded) -> list[Effective]:
    """Every setting in the model's order; the values can be printed and are JSON."""
    return [
        Effective(field.name, printable(_value_of(loaded, field)), _origin(loaded, field))
        for field in fields().values()
    ]


def _value_of(loaded: Loaded, field: SettingField) -> object:
    value: object = loaded.settings
    for part in field.name.split("."):
        value = getattr(value, part)
    return value


def _origin(loaded: Loaded, field: SettingField) -> str:
    origin = loaded.origins.get(field.name)
    if origin is None:
        return "default"
    return field.variable if origin.endswith(f" {field.variable}") else "file"


def printable(value: object) -> object:
    """The value without any secret in it."""
    if isinstance(value, SecretUrl):
        return str(value)
    if isinstance(value, SecretStr):
        return HIDDEN if value.get_secret_value() else ""
    if isinstance(value, Mapping):
        return {name: _printable_property(name, inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [printable(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def _printable_property(name: str, value: object) -> object:
    """Spark's properties are all kept as secrets; only those whose name says so are hidden here."""
    if isinstance(value, SecretStr) and not is_sensitive(name):
        return value.get_secret_value()
    return printable(value)


def markdown() -> str:
    """The reference page."""
    parts = [_INTRODUCTION, _table("")]
    for section, model in sections().items():
        about = " ".join((model.__doc__ or "").split())
        parts.append(f"## [{section}]\n\n{about}\n\n{_table(section)}")
    return "\n".join(parts)


def _table(section: str) -> str:
    rows = ["| setting | variable | kind | default | |", "| --- | --- | --- | --- | --- |"]
    for field in fields().values():
        if field.section == section:
            key = field.name.rpartition(".")[2]
            about = (field.info.description or "").replace("|", "\\|")
            rows.append(f"| `{key}` | `{field.variable}` | {_kind(field)} | {_default(field)} | {about} |")
    return "\n".join(rows) + "\n"


def _default(field: SettingField) -> str:
    value = printable(field.info.default)
    return "" if value in ("", None, {}) else f"`{json.dumps(value)}`"


def _kind(field: SettingField) -> str:
    annotation: Any = field.info.annotation
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(annotation) if choice)
    if annotation is SecretUrl:
        return "URL"
    if field.is_secret:
        return "table" if field.is_table else "secret"
    if field.name == "tables":
        return "list"
    if "int" in str(annotation):
        return _bounds(field)
    return "path" if field.is_path else "text"


def _bounds(field: SettingField) -> str:
    marks = [*field.info.metadata, *(mark for inner in get_args(field.info.annotation) for mark in _marks(inner))]
    least = next((mark.ge for mark in marks if hasattr(mark, "ge")), None)
    most = next((mark.le for mark in marks if hasattr(mark, "le")), None)
    return "number" if least is None else f"number, {least} to {most}"


def _marks(annotation: Any) -> list[Any]:
    """The constraints of an `Annotated` inside a union, such as `Port | None`."""
    found: list[Any] = []
    for mark in getattr(annotation, "__metadata__", ()):
        found += getattr(mark, "metadata", [])
    return found
