"""`headwater fetch`: the embedded servers' files ahead of time, into the cache or into a folder.

For machines that are online only while they are set up, and for container images: the versions and the SHA-256 are the
locked ones, as for `up`. What is there already is not fetched again.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.output import JsonOption, line, print_json

if TYPE_CHECKING:
    from headwater.stack.cache import Cache


def register(app: typer.Typer) -> None:
    app.command("fetch")(fetch)


def fetch(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]…", help="Which; all when none is named.")] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FOLDER", help="Copy the one that is named here, unpacked.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch the embedded servers into the cache, so that `up` needs no network."""
    from headwater.deployment import stack_plan
    from headwater.settings import load
    from headwater.stack.artifacts import bundle, versions

    wanted = _known(names or list(versions()), list(versions()))
    if to is not None:
        _refuse_target(wanted, to)
    cache = stack_plan(load()).cache
    placed = {name: str(_placed(cache, name, to)) for name in wanted}
    if as_json:
        print_json([{"name": name, "version": bundle(name).version, "folder": placed[name]} for name in wanted])
        return
    for name in wanted:
        line(f"{name} {bundle(name).version} in {placed[name]}")


def _known(names: list[str], known: list[str]) -> list[str]:
    from cdc.errors import ConfigurationError

    for name in names:
        if name not in known:
            raise ConfigurationError(
                f"there is no server {name!r} to fetch", detail=f"there are {', '.join(known)}", hint="headwater fetch"
            )
    return list(dict.fromkeys(names))


def _refuse_target(names: list[str], to: Path) -> None:
    from cdc.errors import ConfigurationError

    if len(names) != 1:
        raise ConfigurationError(
            "--to takes one server", detail=f"{len(names)} are wanted", hint="headwater fetch NAME --to FOLDER"
        )
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise ConfigurationError(
            f"{to} is there already", detail="it is not an empty folder", hint="name a folder that does not exist yet"
        )


def _placed(cache: Cache, name: str, to: Path | None) -> Path:
    from headwater.stack.artifacts import bundle

    unpacked = cache.ensure(bundle(name))
    if to is None:
        return unpacked
    shutil.copytree(unpacked, to, symlinks=True, dirs_exist_ok=True)
    return to
