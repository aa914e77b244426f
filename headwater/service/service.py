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
from headwater.api.bell import Bell
from headwater.audit import os_actor
from headwater.deployment import stack_plan
from headwater.events_log import configure, get_log
from headwater.http.server import require_port
from headwater.pages.sessions import Sessions, ShownLink, address
from headwater.service.alerting import alerting
from headwater.service.archiving import archiving
from headwater.service.demo_alerts import DemoNews, demo_alerts
from headwater.service.demo_catching import Catching, demo_catching
from headwater.service.maintaining import Maintaining
from headwater.service.ready import marked_ready
from headwater.service.serving import Serving
from headwater.service.steps import Bringing, Wanted, bring_up
from headwater.service.terminal import PlainView, TerminalReporter, picture
from headwater.service.verifying import verifying
from headwater.service.watch import Watch
from headwater.settings import Settings
from headwater.stack.stack import Stack
from headwater.status import Status
from headwater.status_file import StatusFile

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
            catching = closing.enter_context(demo_catching(deployment, self.wanted.demo))
            told = StatusFile(self.settings.data_folder)
            told.remove()  # what an earlier run saw
            closing.callback(told.remove)
            api = Serving(self.settings)
            closing.callback(api.stop)
            api.start()
            closing.enter_context(archiving(deployment))
            closing.enter_context(verifying(deployment))
            bell = closing.enter_context(Bell(deployment.postgres).ringing())
            closing.enter_context(alerting(catching.deployment, bell, self.settings.http.url))
            news = closing.enter_context(demo_alerts(catching, self.wanted.demo, stop))
            closing.enter_context(marked_ready(self.settings.data_folder))
            views = Maintaining(self.settings)
            closing.callback(views.stop)
            up.set()
            pages = pages_line(self.settings.http.url) if self.wanted.demo else ""
            with self._shown(lambda: demo_lines(pages, moves, news, catching)) as show:

                def tell(status: Status) -> None:
                    told.write(status)
                    show(status)

                Watch(deployment, stack, tell, stop, (views, api)).run()
            self.console.print("stopping")

    @contextmanager
    def _shown(self, moving: Callable[[], str]) -> Iterator[Callable[[Status], None]]:
        """What shows a status to who started us."""
        url = self.settings.http.url
        if not self.console.is_terminal:
            self.console.print(f"up: {url}")  # no link that signs in: what is not a terminal is often a file
            if self.wanted.demo:
                self.console.print(pages_line(url))
            yield PlainView(self.console).show
            return
        link = ShownLink(Sessions(self.settings.data_folder), os_actor())
        with Live(console=self.console, auto_refresh=False) as live:
            yield lambda status: live.update(picture(status, url, moving(), address(url, link.secret())), refresh=True)


def demo_lines(pages: str, moves: Counter[str], news: DemoNews, catching: Catching) -> str:
    return "\n".join(line for line in (moves_line(moves), news.line, catching.text, pages) if line)


def pages_line(url: str) -> str:
    """Where the demo's visitor looks."""
    return f"search homes: {url}search/listing_search · what was told: {url}inbox"


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
