"""Behind `headwater demo run`: the mover in a thread of its own, and its counts on the terminal.

The main thread only waits and prints, so that Ctrl-C and SIGTERM end the run between two transactions.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from rich.live import Live
from rich.text import Text

from cdc.addresses import PostgresAddress
from headwater.cli.output import console, duration_text, line
from headwater.demo import Mover, Step

LIVE_EVERY_S: Final = 0.25
PLAIN_EVERY_S: Final = 5.0
ACTIONS_SHOWN_MAX: Final = 5


@dataclass
class Tally:
    """Counts one run. Written by the mover's thread, read by the terminal's."""

    started_at_s: float = field(default_factory=time.monotonic)
    took_s: float | None = None
    actions: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    rolled_back: int = 0
    outage: str = ""

    def add(self, step: Step) -> None:
        self.outage = ""
        self.actions[step.name] += 1
        self.rolled_back += not step.committed
        self.rows += step.rows if step.committed else 0

    def interrupt(self, error: Exception) -> None:
        self.outage = str(error).partition("\n")[0]

    def finish(self) -> None:
        self.took_s = time.monotonic() - self.started_at_s

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.started_at_s if self.took_s is None else self.took_s

    @property
    def transactions(self) -> int:
        return self.actions.total()

    @property
    def rate_per_s(self) -> float:
        return self.transactions / self.elapsed_s if self.elapsed_s else 0.0

    def text(self) -> str:
        return (
            f"{self.transactions:,} transactions ({self.rolled_back:,} rolled back), {self.rows:,} rows"
            f" in {duration_text(self.elapsed_s)}, {self.rate_per_s:.1f}/s"
        )

    def activity(self) -> str:
        """What happens most, or what the mover waits for."""
        if self.outage:
            return f"waiting: {self.outage}"
        # A copy first: the mover's thread may add an action meanwhile.
        most = Counter(dict(self.actions)).most_common(ACTIONS_SHOWN_MAX)
        return " · ".join(f"{name} {count:,}" for name, count in most)

    def summary(self) -> dict[str, object]:
        return {
            "transactions": self.transactions,
            "rolled_back": self.rolled_back,
            "rows": self.rows,
            "took_s": round(self.elapsed_s, 3),
            "rate_per_s": round(self.rate_per_s, 2),
            "actions": dict(self.actions.most_common()),
        }


def keep_moving(
    address: PostgresAddress,
    rate_per_s: float,
    seed: int,
    *,
    seconds_max: float | None,
    transactions_max: int | None,
    quiet: bool,
) -> Tally:
    """Runs a mover until a limit, Ctrl-C or SIGTERM; raises what the mover raises."""
    tally, stop = Tally(), threading.Event()
    mover = Mover(address, rate_per_s, seed, on_step=tally.add, on_outage=tally.interrupt)
    with mover, ThreadPoolExecutor(1, "mover") as pool, _display(tally, quiet=quiet) as show, _terminable():
        running = pool.submit(mover.run, stop, transactions_max)
        try:
            _watch(running, tally, seconds_max, show)
        except KeyboardInterrupt:
            pass
        finally:
            stop.set()
        running.result()
    tally.finish()
    return tally


def _watch(running: Future[int], tally: Tally, seconds_max: float | None, show: Callable[[], None]) -> None:
    """Until the mover has ended or its time is up."""
    while not running.done():
        left_s = LIVE_EVERY_S if seconds_max is None else seconds_max - tally.elapsed_s
        if left_s <= 0:
            return
        wait([running], timeout=min(LIVE_EVERY_S, left_s))
        show()


@contextmanager
def _display(tally: Tally, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """Two lines that change on a terminal, a line now and then elsewhere."""
    out = console()
    if quiet:
        yield lambda: None
    elif out.is_terminal:
        with Live(Text(), console=out, transient=True, auto_refresh=False) as live:
            yield lambda: live.update(Text(f"{tally.text()}\n{tally.activity()}"), refresh=True)
    else:
        yield _now_and_then(lambda: line(f"{tally.text()} · {tally.activity()}"))


def _now_and_then(show: Callable[[], None]) -> Callable[[], None]:
    due_at_s = time.monotonic() + PLAIN_EVERY_S

    def show_if_due() -> None:
        nonlocal due_at_s
        if time.monotonic() >= due_at_s:
            due_at_s += PLAIN_EVERY_S
            show()

    return show_if_due


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does. Signals are the main thread's, so elsewhere (in a test) this does nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
