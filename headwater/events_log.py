"""Headwater's own log: events with fields, on standard error and in <data_folder>/logs/headwater.log.

An event is a name in lower case and fields: `log.info("connector restarted", connector=…, attempt=…)`. Levels: debug
for the curious, info for what an operator wants to have happened, warning for what heals by itself, error when data is
at risk.
The records of other libraries come out the same way. A field whose name speaks of a secret comes out as ***.
"""

from __future__ import annotations

import logging
import logging.handlers
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import structlog
from pydantic import SecretStr
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, Processor

from headwater.settings import LogSettings
from headwater.settings.secrets import HIDDEN, SecretUrl, is_sensitive

FILE_NAME: Final = "headwater.log"
FILE_BYTES_MAX: Final = 20_000_000
FILES_MAX: Final = 3
_NOISY: Final = ("httpx", "httpcore", "py4j", "alembic.runtime.migration", "elastic_transport.transport")
"""Libraries that tell every request at info: only their warnings are events to us."""


def configure(settings: LogSettings, logs_folder: Path | None = None) -> None:
    """Sets logging up for this process; a second call replaces the first. With a folder, the events go there too."""
    handlers: list[logging.Handler] = [_to_stderr(settings)]
    if logs_folder is not None:
        handlers.append(_to_file(logs_folder))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(settings.level.upper())
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)


def get_log(name: str) -> structlog.stdlib.BoundLogger:
    """The log of one part; `name` comes out as the field `logger`.

    Always through the standard library's logging, configured or not: standard output belongs to what a verb answers.
    """
    log: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(name),
        processors=[*_shared(), ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    return log


def hide_secrets(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Fields that are secrets by type or by name, as ***."""
    return {name: _hidden(name, value) for name, value in event.items()}


def _hidden(name: str, value: object) -> object:
    if isinstance(value, SecretUrl):
        return str(value)
    if isinstance(value, SecretStr) or (is_sensitive(name) and value):
        return HIDDEN
    return value


def _shared() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        hide_secrets,
    ]


def _to_stderr(settings: LogSettings) -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    for_people = settings.format == "console" or (settings.format == "auto" and sys.stderr.isatty())
    last: list[Processor] = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())] if for_people else _json()
    handler.setFormatter(_formatter(last))
    return handler


def _to_file(logs_folder: Path) -> logging.Handler:
    logs_folder.mkdir(parents=True, exist_ok=True)
    handler = logging.handlers.RotatingFileHandler(
        logs_folder / FILE_NAME, maxBytes=FILE_BYTES_MAX, backupCount=FILES_MAX, encoding="utf-8"
    )
    handler.setFormatter(_formatter(_json()))
    return handler


def _json() -> list[Processor]:
    return [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer(ensure_ascii=False, default=str)]


def _formatter(last: Sequence[Processor]) -> ProcessorFormatter:
    return ProcessorFormatter(
        foreign_pre_chain=[*_shared(), structlog.stdlib.ExtraAdder()],
        processors=[ProcessorFormatter.remove_processors_meta, *last],
    )
