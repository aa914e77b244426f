"""Settings from headwater.toml and HEADWATER_*: the environment wins over the file, the file over the defaults.

An unknown key, a wrong type or a malformed file is a ConfigurationError that names the setting and where it comes from.
No error carries a value, nor pydantic's own error as its cause, because either may hold a password.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource, SettingsError

from cdc.errors import ConfigurationError
from headwater.settings import problems
from headwater.settings.fields import by_variable, fields, sections
from headwater.settings.model import ENV_PREFIX, Settings

FILE_NAME: Final = "headwater.toml"
FILE_VARIABLE: Final = "HEADWATER_CONFIG"
"""Where the file is, for a process that was not given it on the command line."""
NOT_SETTINGS: Final = (FILE_VARIABLE, "HEADWATER_DEBUG")
TEST_PREFIX: Final = "HEADWATER_TEST_"
FILE_BYTES_MAX: Final = 1_000_000


@dataclass(frozen=True)
class Loaded:
    """The settings, and where each that is not a default comes from ("from …")."""

    settings: Settings
    origins: Mapping[str, str]
    file: Path | None


def load(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings in force here. Without a path: the file in HEADWATER_CONFIG, else headwater.toml if there is one."""
    return load_with_origins(path, environ).settings


def load_with_origins(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Loaded:
    environ = os.environ if environ is None else environ
    file = _find(path, environ)
    written = _read(file) if file else {}
    variables = _variables(environ)
    _refuse_unknown(written, variables, file)
    origins = dict.fromkeys(_names(written), f"from {file}")
    origins |= {by_variable()[name].name: f"from the environment variable {name}" for name in variables}
    values = _merged(_absolute(written, file.parent) if file else {}, _absolute(_decoded(variables), Path.cwd()))
    values.setdefault("data_folder", str((file.parent if file else Path.cwd()) / Settings().data_folder))
    return Loaded(_validated(values, origins), origins, file)


def _find(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    named = path or (Path(environ[FILE_VARIABLE]) if environ.get(FILE_VARIABLE) else None)
    file = (named or Path(FILE_NAME)).absolute()
    if file.is_file():
        return file
    if named:
        raise ConfigurationError(
            f"no settings file at {named}", detail="it does not exist, or is no file", hint="headwater --config FILE"
        )
    return None


def _read(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > FILE_BYTES_MAX:
            raise ConfigurationError(
                f"{file} is too large", detail=f"at most {FILE_BYTES_MAX} bytes", hint="headwater --config FILE"
            )
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be read", detail=error.strerror or "", hint=f"ls -l {file} shows who may read it"
        ) from error
    except UnicodeDecodeError as error:
        wrong = ConfigurationError(f"{file} is not UTF-8", detail=f"at byte {error.start}", hint="save it as UTF-8")
    except tomllib.TOMLDecodeError as error:
        wrong = ConfigurationError(f"{file} is not valid TOML", detail=str(error), hint="texts stand in double quotes")
    raise wrong


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Our variables that have a value: an empty one counts as not set, as compose files write it."""
    return {
        name: text
        for name, text in environ.items()
        if name.startswith(ENV_PREFIX) and name not in NOT_SETTINGS and not name.startswith(TEST_PREFIX) and text
    }


def _refuse_unknown(written: Mapping[str, Any], variables: Mapping[str, str], file: Path | None) -> None:
    found = [problems.unknown_key(name, f"from {file}") for name in _names(written) if name not in fields()]
    found += [problems.unknown_variable(name) for name in variables if name not in by_variable()]
    if found:
        raise problems.error_of(found)


def _names(written: Mapping[str, Any]) -> list[str]:
    """The settings that the file speaks of, as dotted names."""
    names: list[str] = []
    for name, value in written.items():
        if name in sections() and isinstance(value, Mapping):
            names += [f"{name}.{inner}" for inner in value]
        else:
            names.append(name)
    return names


def _decoded(variables: Mapping[str, str]) -> dict[str, Any]:
    """The variables as nested values; texts stay texts, the model knows what they should be."""
    source = EnvSettingsSource(Settings)
    source.env_vars = {name.lower(): text for name, text in variables.items()}
    try:
        return source()
    except SettingsError:
        tables = [field.variable for field in fields().values() if field.is_table and field.variable in variables]
    raise ConfigurationError(
        f"{tables[0] if tables else ENV_PREFIX} is not valid",
        detail="it must be a JSON object",
        hint="headwater config docs",
    )


def _absolute(values: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """The values, with paths made absolute: what is written in a file means the same from any folder."""

    def walked(name: str, value: Any) -> Any:
        if name in sections() and isinstance(value, Mapping):
            return {inner: walked(f"{name}.{inner}", deeper) for inner, deeper in value.items()}
        if fields()[name].is_path and isinstance(value, str) and value and not _is_word_of_libpq(name, value):
            return str(base / Path(value).expanduser())
        return value

    return {name: walked(name, value) for name, value in values.items()}


def _is_word_of_libpq(name: str, value: str) -> bool:
    """`sslrootcert=system` means the machine's own authorities, not a file."""
    return name == "postgres.sslrootcert" and value == "system"


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        merged[name] = {**merged.get(name, {}), **value} if name in sections() else value
    return merged


def _validated(values: Mapping[str, Any], origins: Mapping[str, str]) -> Settings:
    try:
        return Settings(**values)
    except ValidationError as error:
        records = error.errors(include_url=False, include_input=False, include_context=False)
    # Outside the except block on purpose: pydantic's error holds the values and must not become the context.
    raise problems.error_of(problems.refused(records, origins))
