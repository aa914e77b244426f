"""The list of all settings, read off the model: the names a person may use, in the file and in the environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from headwater.settings.base import PathMark, Section
from headwater.settings.model import ENV_DELIMITER, ENV_PREFIX, Settings
from headwater.settings.secrets import SecretUrl


@dataclass(frozen=True)
class SettingField:
    name: str
    """As people write it: `kafka.bootstrap`."""
    info: FieldInfo

    @property
    def section(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return ENV_PREFIX + self.name.replace(".", ENV_DELIMITER).upper()

    @property
    def is_path(self) -> bool:
        return any(isinstance(mark, PathMark) for mark in self.info.metadata)

    @property
    def is_table(self) -> bool:
        """Whether any names may stand below it in the file."""
        return "dict" in str(self.info.annotation)

    @property
    def is_secret(self) -> bool:
        return any(kind in (SecretStr, SecretUrl) for kind in _kinds(self.info.annotation))


def _kinds(annotation: Any) -> Iterator[Any]:
    yield annotation
    for inner in get_args(annotation):
        yield from _kinds(inner)


@cache
def sections() -> Mapping[str, type[Section]]:
    """The sections by name, in the model's order."""
    found = {
        name: info.annotation
        for name, info in Settings.model_fields.items()
        if isinstance(info.annotation, type) and issubclass(info.annotation, Section)
    }
    return MappingProxyType(found)


@cache
def fields() -> Mapping[str, SettingField]:
    """Every setting by its name, in the model's order: those without a section first."""
    listed = [SettingField(name, info) for name, info in Settings.model_fields.items() if name not in sections()]
    for section, model in sections().items():
        listed += [SettingField(f"{section}.{name}", info) for name, info in model.model_fields.items()]
    return MappingProxyType({field.name: field for field in listed})


@cache
def by_variable() -> Mapping[str, SettingField]:
    return MappingProxyType({field.variable: field for field in fields().values()})
