"""`headwater doctor`: is this machine, and what the settings point at, ready? Reads only; changes nothing."""

from __future__ import annotations

import typer

from headwater.cli.output import LEVEL_STYLES, JsonOption, line, print_json


def register(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def doctor(as_json: JsonOption = False) -> None:
    """Check Java, memory, disk, ports, versions, and the servers of yours that the settings name."""
    from headwater.doctor import examine
    from headwater.settings import load

    findings = examine(load())
    failed = any(finding.level == "fail" for finding in findings)
    if as_json:
        print_json({"ok": not failed, "checks": findings})
    else:
        for finding in findings:
            line((f"{finding.level:<4}", LEVEL_STYLES[finding.level]), f"  {finding.name}: {finding.detail}")
            if finding.level != "ok" and finding.hint:
                line(("      hint: ", "cyan"), finding.hint)
    if failed:
        raise typer.Exit(1)
