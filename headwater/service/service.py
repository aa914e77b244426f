"""`headwater up`, from the first line to the last: come up, run, stop in order."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.live import Live

from cdc.addresses import PostgresAddress
from headwater.deployment import Deployment, stack_plan
from headwater.events_log import configure, get_log
from headwater.http.server import PageServer, require_port
from headwater.service.alerting import alerting
from headwater.service.archiving import archiving
from headwater.service.demo_alerts import DemoNews, demo_alerts
from headwater.service.maintaining import Maintaining
from headwater.service.ready import marked_ready
from headwater.service.steps import Bringing, Wanted, bring_up
from headwater.service.terminal import PlainView, TerminalReporter, picture
from headwater.service.watch import Watch
from headwater.settings import Settings
from headwater.stack.stack import Stack
from headwater.status import Status

MOVER_STOP_S_MAX: Final = 10.0


@dataclass(frozen=True, slots=True)
class Run:
    settings: Settings
    wanted: Wanted
    rate_per_s: float
    console: Console

    def __call__(self) -> None:
        """Blocks until Ctrl-C, SIGTERM or `headwater down`."""
        stop, up = threading.Event(), threading.Event()
        stack = Stack(stack_plan(self.settings))
        reporter = TerminalReporter(self.console)
        require_port(self.settings.http)
        with ExitStack() as closing, _signals(up, stop):
            deployment = bring_up(Bringing(self.settings, stack, self.wanted, reporter))
            closing.callback(stack.stop, reporter.server)
            closing.callback(reporter.close)
            configure(self.settings.log, self.settings.logs_folder)
            get_log("service").info("up", source=deployment.source.name)
            moves = closing.enter_context(_moving(deployment.postgres, self.rate_per_s, self.wanted, stop))
            server = closing.enter_context(PageServer(deployment).running())
            closing.enter_context(archiving(deployment))
            closing.enter_context(alerting(deployment, server.reading.hub, server.url))
            news = closing.enter_context(demo_alerts(deployment, self.wanted.demo, stop))
            closing.enter_context(marked_ready(self.settings.data_folder))
            views = Maintaining(self.settings)
            closing.callback(views.stop)
            up.set()
            self._watch(deployment, stack, server, lambda: demo_lines(moves, news), stop, views)
            self.console.print("stopping")

    def _watch(
        self,
        deployment: Deployment,
        stack: Stack,
        server: PageServer,
        moving: Callable[[], str],
        stop: threading.Event,
        views: Maintaining,
    ) -> None:
        if not self.console.is_terminal:
            self.console.print(f"up: {server.url}")
            plain = PlainView(self.console)

            def show(status: Status) -> None:
                server.status = status
                plain.show(status)

            Watch(deployment, stack, show, stop, views).run()
            return
        with Live(console=self.console, auto_refresh=False) as live:

            def draw(status: Status) -> None:
                server.status = status
                live.update(picture(status, server.url, moving()), refresh=True)

            Watch(deployment, stack, draw, stop, views).run()


def demo_lines(moves: Counter[str], news: DemoNews) -> str:
    return "\n".join(line for line in (moves_line(moves), news.line) if line)


def moves_line(moves: Counter[str]) -> str:
    if not moves:
        return ""
    most = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in moves.most_common(6))
    return f"demo: {moves.total():,} transactions: {most} …"


@contextmanager
def _signals(up: threading.Event, stop: threading.Event) -> Iterator[None]:
    """SIGTERM, Ctrl-C and a closed terminal end the run in order; before it is up, or a second time, at once: what had
    started is stopped."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}

    def asked(_number: int, _frame: object) -> None:
        if stop.is_set() or not up.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in before:
        signal.signal(number, asked)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _moving(
    address: PostgresAddress, rate_per_s: float, wanted: Wanted, stop: threading.Event
) -> Iterator[Counter[str]]:
    """The demo's data in motion, on a thread of its own; nothing without the demo."""
    from headwater import demo

    moves: Counter[str] = Counter()
    if not wanted.demo or rate_per_s <= 0:
        yield moves
        return

    def count(step: demo.Step) -> None:
        moves[step.name] += 1

    def move() -> None:
        with demo.Mover(address, rate_per_s, wanted.seed, on_step=count) as mover:
            mover.run(stop)

    thread = threading.Thread(target=move, name="demo-mover", daemon=True)
    thread.start()
    try:
        yield moves
    finally:
        stop.set()
        thread.join(MOVER_STOP_S_MAX)
