"""The command line: `headwater VERB`. A verb is one file with `register(app)` and one line in VERBS.

Guarantees about every verb: an error comes out as fact, detail and hint on standard error (with --json as an object on
standard output), not as a traceback; the exit code is 0, 1 for a failure, 2 for something the caller wrote, 130 when
interrupted. Verbs import what is heavy inside themselves, so that `--help` stays quick.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Final

import typer

from cdc.errors import ConfigurationError, HeadwaterError
from headwater import __version__
from headwater.cli.output import print_error

VERBS: Final = (
    "headwater.cli.up",
    "headwater.cli.down",
    "headwater.cli.status",
    "headwater.cli.console",
    "headwater.cli.doctor",
    "headwater.cli.logs",
    "headwater.cli.capture",
    "headwater.cli.recover",
    "headwater.cli.log",
    "headwater.cli.plan",
    "headwater.cli.apply",
    "headwater.cli.views",
    "headwater.cli.explain",
    "headwater.cli.show",
    "headwater.cli.sql",
    "headwater.cli.view_at",
    "headwater.cli.diff",
    "headwater.cli.story",
    "headwater.cli.verify",
    "headwater.cli.repair",
    "headwater.cli.rebuild",
    "headwater.cli.generations",
    "headwater.cli.pause",
    "headwater.cli.keys",
    "headwater.cli.alerts",
    "headwater.cli.quiet",
    "headwater.cli.deliveries",
    "headwater.cli.suppressions",
    "headwater.cli.deadletters",
    "headwater.cli.audit",
    "headwater.cli.erase",
    "headwater.cli.retention",
    "headwater.cli.demo",
    "headwater.cli.maintain",
    "headwater.cli.serve",
    "headwater.cli.migrate",
    "headwater.cli.bench",
    "headwater.cli.fetch",
    "headwater.cli.config",
)
DEBUG_VARIABLE: Final = "HEADWATER_DEBUG"
EXIT_FAILED: Final = 1
EXIT_CALLER: Final = 2
EXIT_INTERRUPTED: Final = 130


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headwater {__version__}")
        raise typer.Exit


def _root(
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="The settings file; else headwater.toml here.")
    ] = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Keeps caches, search indexes, warehouse tables and saved searches fresh from Postgres."""
    if config is not None:
        # By the environment, so that child processes and every `load()` see the same file.
        os.environ["HEADWATER_CONFIG"] = str(config.absolute())


def make_app() -> typer.Typer:
    """The application with all its verbs."""
    app = typer.Typer(name="headwater", add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
    app.callback()(_root)
    for module in VERBS:
        import_module(module).register(app)
    return app


app = make_app()


def main() -> None:
    """The `headwater` program."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs one command line; the exit code. All errors end here."""
    as_json = "--json" in arguments
    try:
        code = app(args=list(arguments), prog_name="headwater", standalone_mode=False)
    except HeadwaterError as error:
        print_error(error, as_json=as_json)
        _print_traceback(error)
        return EXIT_CALLER if isinstance(error, ConfigurationError) else EXIT_FAILED
    except typer.TyperException as error:
        return _refuse_usage(error, as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except Exception as error:
        print_error(_unexpected(error), as_json=as_json)
        _print_traceback(error)
        return EXIT_FAILED
    return code if isinstance(code, int) else 0


def _refuse_usage(error: typer.TyperException, *, as_json: bool) -> int:
    """A verb or option that does not exist, in the shape of all other errors."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "headwater"
    message = error.format_message().rstrip(".")
    if not message or type(error).__name__ == "NoArgsIsHelpError":
        # The help text is the answer to a bare `headwater`; the library has printed it or carries it as the message.
        typer.echo(message, err=True)
        return EXIT_CALLER
    print_error(ConfigurationError(message[:1].lower() + message[1:], hint=f"{path} --help"), as_json=as_json)
    return EXIT_CALLER


def _unexpected(error: Exception) -> HeadwaterError:
    told = " ".join(str(error).split())
    return HeadwaterError(
        "something went wrong that Headwater did not foresee",
        detail=f"{type(error).__name__}: {told}" if told else type(error).__name__,
        hint=f"run it again with {DEBUG_VARIABLE}=1 for the traceback, and report it",
    )


def _print_traceback(error: Exception) -> None:
    if os.environ.get(DEBUG_VARIABLE, "") not in ("", "0"):
        traceback.print_exception(error, file=sys.stderr)
