"""`headwater down`: stops what `up` started, from any terminal; with --reset throws its data away too."""

from __future__ import annotations

import shutil
import signal
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.output import JsonOption, ask, line, print_json

if TYPE_CHECKING:
    from headwater.settings import Settings

STOP_S_MAX: Final = 90.0
POLL_S: Final = 0.1


def register(app: typer.Typer) -> None:
    app.command("down")(down)


def down(
    reset: Annotated[bool, typer.Option("--reset", help="Also delete the embedded servers' data.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before deleting.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Stop the embedded stack, in order."""
    from headwater.settings import load

    settings = load()
    folder = settings.data_folder
    if reset:
        ask(f"delete all data of the embedded servers in {folder}?", yes=yes, as_json=as_json)
    with _traced(settings) if reset else nullcontext():
        stopped = stop(folder, damaged_ok=reset)
        if reset:
            delete(folder, settings.stack.account, traces=settings.postgres.embedded)
    if as_json:
        print_json({"stopped": stopped, "reset": reset})
        return
    line("stopped" if stopped else "nothing was running")
    if reset:
        line(f"deleted what the embedded servers kept in {folder}")


def _traced(settings: Settings) -> AbstractContextManager[object]:
    """An embedded database takes the audit log with it. The user's own is there, whether anything of ours runs or not;
    what waited for it is brought in before anything is deleted."""
    from headwater.audit import audited
    from headwater.deployment import Deployment
    from headwater.stack.state import StackState

    if settings.postgres.embedded:
        return nullcontext()
    return audited(Deployment.of(settings, StackState()), "down --reset", folder=str(settings.data_folder))


def stop(folder: Path, *, damaged_ok: bool = False) -> bool:
    """Asks the process that runs the stack to end; whatever is left after a kill -9 of it is ended here."""
    from cdc.errors import StackError
    from headwater.stack import state as stack_state
    from headwater.stack.process import end

    try:
        state = stack_state.load(folder)
    except StackError:
        if not damaged_ok or stack_state.is_running(folder):
            raise
        return False
    supervisor = state.supervisor.process() if state.supervisor and stack_state.is_running(folder) else None
    if state.supervisor is None or supervisor is None:
        ended = [end(leftover) for leftover in state.processes.values()]
        return any(ended)
    supervisor.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + STOP_S_MAX
    while stack_state.is_running(folder) or state.supervisor.process() is not None:
        if time.monotonic() > deadline:
            raise StackError(
                f"process {supervisor.pid} did not stop within {STOP_S_MAX:g} s",
                hint=f"kill -9 {supervisor.pid}; its servers end with it",
            )
        time.sleep(POLL_S)
    return True


def delete(folder: Path, account: str, *, traces: bool = True) -> None:
    """What the stack has written, and nothing else: the folder may be one that the user keeps other things in. Without
    `traces`, those that still wait for a database stay."""
    from headwater import audit_store, status_file
    from headwater.api import shared_secret
    from headwater.demo import catchers, caught_file
    from headwater.pages import sessions
    from headwater.service.ready import READY_FILE
    from headwater.stack import state as stack_state
    from headwater.stack.account import reachable, unprivileged

    lock = stack_state.StackLock(folder)
    if not lock.acquire():
        raise stack_state.already_running(folder)
    own = tuple(folder / name for name in ("data", "logs", "views", "alerts", "warehouse", sessions.FOLDER))
    for path in (reachable(folder / "data", unprivileged(account)), *own):
        if path.exists():
            shutil.rmtree(path)
    files = (*stack_state.FILES, *status_file.FILES, *shared_secret.FILES, *catchers.FILES)
    waiting = [name for name in audit_store.FILES if traces or not _has_content(folder / name)]
    for name in (READY_FILE, caught_file.NAME, *files, *waiting):
        (folder / name).unlink(missing_ok=True)
    lock.release()
    if not any(folder.iterdir()):
        folder.rmdir()


def _has_content(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0
