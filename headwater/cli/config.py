"""`headwater config show|docs`: the settings in force, and the reference of all settings."""

from __future__ import annotations

import json

import typer

from headwater.cli.output import JsonOption, line, print_json, table


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="The settings in force, and all that can be set.")
    verbs.command("show")(show)
    verbs.command("docs")(docs)
    app.add_typer(verbs, name="config")


def show(as_json: JsonOption = False) -> None:
    """Print every setting with its value and where it comes from; secrets as ***."""
    from headwater.settings import load_with_origins
    from headwater.settings.describe import effective

    loaded = load_with_origins()
    settings = effective(loaded)
    if as_json:
        values = {setting.name: {"value": setting.value, "from": setting.origin} for setting in settings}
        print_json({"file": loaded.file, "settings": values})
        return
    line("file: ", str(loaded.file) if loaded.file else "none")
    table(("setting", "value", "from"), [(s.name, _text(s.value), s.origin) for s in settings])


def _text(value: object) -> str:
    if value in ("", None):
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def docs() -> None:
    """Print the reference of all settings, as Markdown."""
    from headwater.settings.describe import markdown

    typer.echo(markdown(), nl=False)
