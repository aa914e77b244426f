"""Goes through rebuilds in a process of its own, until it is told to stop or killed. Everything is real but the engine:
the view's topic is written by the test. `python -m tests.sinks.rebuild_child '{…}'`."""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from cdc.addresses import KafkaAddress, Source
from headwater.views.verify_sinks import verify_sink
from tests.sinks.places import kind_at, shape
from views.maintain.booking import BookKeeper
from views.maintain.failpoints import reached
from views.maintain.group import Group
from views.maintain.obeying import Obeying
from views.maintain.orders import Orders
from views.maintain.publisher import Frontier, Published, view_topic
from views.maintain.rebuilding import Rebuilder
from views.maintain.registry import Registry
from views.maintain.sinking import Sinking
from views.rebuild import Checked
from views.sinks.following import ViewTopic
from views.sinks.lane import LaneLimits, LaneState
from views.store import ViewStore

VIEW = "items"
PACE_S = 0.1


def main() -> None:
    given = json.loads(sys.argv[1])
    kafka, source = KafkaAddress(given["bootstrap"]), Source(given["source"])
    kind, topic = kind_at(given["sink"], given["at"]), ViewTopic(kafka, view_topic(source, VIEW))
    type(kind).rows_per_apply_max = 20  # type: ignore[misc]  # who is killed while it fills has filled a part
    whole = shape(source.name)
    store = ViewStore(VIEW, whole.fields, whole.key)
    group = cast(
        Group, SimpleNamespace(declared={VIEW: SimpleNamespace(sinks=(kind.name,))}, shape=lambda view, source: whole)
    )

    def check(view: str, sink: str, number: int, stop: threading.Event) -> Checked:
        opened = kind.open(whole, number)
        try:
            found = verify_sink(sink, opened, store, topic)
        finally:
            opened.close()
        return Checked(found.is_equal, found.rows)

    def rest(worked_s: float, records: int) -> float:
        reached("filling")
        return 0.0

    limits = LaneLimits(check_s=0.1, backoff_s=0.05, backoff_s_max=0.1)
    sinking = Sinking(kafka, source, {kind.name: kind}, limits=limits, rest=rest)
    keeper = BookKeeper(Registry(Path(given["folder"])))
    obeying = Obeying(
        Orders(Path(given["folder"])), keeper, Rebuilder(keeper, sinking, lambda view: None, check, keep_s=3600)
    )
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    thread = threading.Thread(target=obeying.run, args=(stop,))
    while not stop.wait(PACE_S):
        end = topic.end()
        frontier = Frontier(VIEW, 1, 1, "0/1", None, 0, "", end)
        sinking.published(group, [Published(frontier, end, None, 0)])
        lane = sinking.shown(VIEW, kind.name)
        if lane is not None and lane.status.reason:
            print(lane.status.state, lane.status.reason, flush=True)
        if lane is not None and lane.status.state is LaneState.RIDING and thread.ident is None:
            thread.start()  # before that, orders would be refused
    if thread.ident is not None:
        thread.join()
    sinking.close()


if __name__ == "__main__":
    main()
