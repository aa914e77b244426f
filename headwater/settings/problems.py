"""What is wrong with what a person wrote: the setting, where it comes from, what is expected. Never the value.

Pure: turns names and pydantic's error records into problems, and several problems into one error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from cdc.errors import ConfigurationError
from headwater.settings.fields import by_variable, fields, sections
from headwater.settings.model import ENV_DELIMITER, ENV_PREFIX

_PYDANTIC_SUBJECT: Final = re.compile(r"^(Input|String|Value|List|Tuple|Dictionary) should ")
_ALL_SETTINGS: Final = "headwater config docs lists every setting"


@dataclass(frozen=True)
class Problem:
    fact: str
    detail: str
    hint: str


def error_of(problems: Sequence[Problem]) -> ConfigurationError:
    """One problem as it is; several as one error, so that a person mends them all at once."""
    if len(problems) == 1:
        only = problems[0]
        return ConfigurationError(only.fact, detail=only.detail, hint=only.hint)
    lines = (f"{problem.fact} ({problem.detail}; {problem.hint})" for problem in problems)
    return ConfigurationError(f"{len(problems)} settings are not valid", detail="\n".join(lines), hint=_ALL_SETTINGS)


def unknown_key(name: str, origin: str) -> Problem:
    """A key of the file that is no setting."""
    if name in sections():
        return Problem(
            f"{name} is a section, and was given a single value", origin, f"write [{name}], its settings below"
        )
    close = get_close_matches(name, [*fields(), *sections()], 1, 0.7)
    # `bootstrap` outside [kafka]: the right key in the wrong place.
    close = close or [known for known in fields() if known.rpartition(".")[2] == name.rpartition(".")[2]][:1]
    return Problem(f"unknown setting {name}", origin, f"did you mean {close[0]}?" if close else _ALL_SETTINGS)


def unknown_variable(variable: str) -> Problem:
    """An environment variable with our prefix that sets nothing."""
    name = variable.removeprefix(ENV_PREFIX).replace(ENV_DELIMITER, ".").lower()
    if name in sections():
        first = next(field for field in fields().values() if field.section == name)
        return Problem(f"{variable} names a section, not a setting", f"[{name}]", f"write for example {first.variable}")
    # Compared without the prefix, which would make any two names look alike.
    suffixes = {known.removeprefix(ENV_PREFIX): known for known in by_variable()}
    close = get_close_matches(variable.removeprefix(ENV_PREFIX), suffixes, 1, 0.7)
    hint = f"did you mean {suffixes[close[0]]}?" if close else _ALL_SETTINGS
    return Problem(f"unknown setting {name}", f"from the environment variable {variable}", hint)


def refused(records: Sequence[Mapping[str, Any]], origins: Mapping[str, str]) -> list[Problem]:
    """What pydantic refused. Its messages say what is expected; they are only used without their input."""
    return [_refused_one(record, origins) for record in records]


def _refused_one(record: Mapping[str, Any], origins: Mapping[str, str]) -> Problem:
    name = _setting_at(record["loc"])
    message = _PYDANTIC_SUBJECT.sub("should ", str(record["msg"]).removeprefix("Value error, "))
    if name in sections():
        return Problem(message, f"[{name}], from {_origin_of_section(name, origins)}", _ALL_SETTINGS)
    field = fields().get(name)
    expected = f"it {message[:1].lower()}{message[1:]}"
    described = f"{name}: {field.info.description}" if field else _ALL_SETTINGS
    return Problem(f"setting {name} is not valid", f"{expected}; {origins.get(name, 'the default')}", described)


def _setting_at(location: Sequence[str | int]) -> str:
    """The setting that the location lies in: what follows its name is an index or a kind of pydantic's."""
    for length in (2, 1):
        name = ".".join(str(part) for part in location[:length])
        if name in fields() or name in sections():
            return name
    return ".".join(str(part) for part in location)


def _origin_of_section(section: str, origins: Mapping[str, str]) -> str:
    used = {origin.removeprefix("from ") for name, origin in origins.items() if name.startswith(f"{section}.")}
    return " and ".join(sorted(used)) or "the defaults"
