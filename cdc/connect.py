"""A small typed client of Kafka Connect's REST API: the door to Debezium.

Every call is bounded in time. While the workers rebalance, Connect answers 409: that is waited out, up to a limit, and
so is a failure to write offsets.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

import httpx

from cdc.addresses import ConnectAddress
from cdc.errors import CaptureError

PAUSED: Final = "PAUSED"
STOPPED: Final = "STOPPED"
TIMEOUT_S: Final = 30.0
REBALANCE_WAIT_S_MAX: Final = 60.0
REBALANCE_POLL_S: Final = 0.25
BUSY: Final = frozenset({httpx.codes.CONFLICT})
OFFSETS_BUSY: Final = BUSY | {httpx.codes.INTERNAL_SERVER_ERROR}
"""Connect writes offsets in a transaction of its own, which a task that just ended, or a slow broker, may make fail. It
says 500 then and has changed nothing, and the same asked again does no harm."""
SETTLE_S: Final = 5.0
"""A failure may be told this long after its cause was put right: Connect's status follows its deeds."""


@dataclass(frozen=True, slots=True)
class TaskStatus:
    id: int
    state: str
    worker: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    name: str
    state: str
    """RUNNING, PAUSED, STOPPED, FAILED, UNASSIGNED, RESTARTING."""
    worker: str
    tasks: tuple[TaskStatus, ...]
    trace: str = ""

    @property
    def running(self) -> bool:
        return self.state == "RUNNING" and bool(self.tasks) and all(t.state == "RUNNING" for t in self.tasks)

    @property
    def failed(self) -> bool:
        return self.state == "FAILED" or any(t.state == "FAILED" for t in self.tasks)

    @property
    def summary(self) -> str:
        """One word for the whole: the worst state of the connector and its tasks."""
        states = [self.state, *(t.state for t in self.tasks)]
        if self.state == "RUNNING" and not self.tasks:
            return "UNASSIGNED"
        return next((s for s in ("FAILED", "UNASSIGNED", "RESTARTING", "PAUSED", "STOPPED") if s in states), self.state)

    @property
    def traces(self) -> tuple[str, ...]:
        """The Java stack traces of what failed."""
        return tuple(trace for trace in (self.trace, *(t.trace for t in self.tasks)) if trace)

    @property
    def reason(self) -> str:
        """The root cause of a failure, out of the Java stack trace."""
        return root_cause(self.traces[0]) if self.traces else ""


class ConnectClient:
    def __init__(self, address: ConnectAddress) -> None:
        verify: Any = address.ca_file or True
        auth = httpx.BasicAuth(address.user, address.password) if address.user else None
        self._url = address.url
        self._http = httpx.Client(base_url=address.url, auth=auth, verify=verify, timeout=TIMEOUT_S)

    def __enter__(self) -> ConnectClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def plugins(self) -> dict[str, str]:
        """Connector classes and their versions."""
        return {plugin["class"]: str(plugin.get("version", "")) for plugin in self._call("GET", "/connector-plugins")}

    def connectors(self) -> list[str]:
        return list(self._call("GET", "/connectors"))

    def validate(self, name: str, config: Mapping[str, str]) -> list[str]:
        """What the connector itself has against the configuration; empty when it is fine."""
        plugin = config["connector.class"].rsplit(".", 1)[-1]
        answer = self._call("PUT", f"/connector-plugins/{plugin}/config/validate", {**config, "name": name})
        return [
            f"{field['value']['name']}: {message}"
            for field in answer["configs"]
            for message in field["value"].get("errors", ())
        ]

    def put(self, name: str, config: Mapping[str, str]) -> bool:
        """Creates or updates; False when it was so already, and nothing restarts."""
        if self.config(name) == {**config, "name": name}:
            return False
        self._call("PUT", f"/connectors/{name}/config", dict(config))
        return True

    def config(self, name: str) -> dict[str, str] | None:
        found: dict[str, str] | None = self._found("GET", f"/connectors/{name}/config")
        return found

    def status(self, name: str) -> ConnectorStatus | None:
        answer = self._found("GET", f"/connectors/{name}/status")
        if answer is None:
            return None
        connector = answer["connector"]
        tasks = tuple(TaskStatus(t["id"], t["state"], t["worker_id"], t.get("trace", "")) for t in answer["tasks"])
        return ConnectorStatus(name, connector["state"], connector["worker_id"], tasks, connector.get("trace", ""))

    def pause(self, name: str) -> None:
        self._call("PUT", f"/connectors/{name}/pause")

    def resume(self, name: str) -> None:
        self._call("PUT", f"/connectors/{name}/resume")

    def stop(self, name: str) -> None:
        """Like pause, but the task ends and lets go of the slot."""
        self._call("PUT", f"/connectors/{name}/stop")

    def delete(self, name: str) -> bool:
        return self._found("DELETE", f"/connectors/{name}") is not None

    def offsets(self, name: str) -> Sequence[Mapping[str, Any]]:
        """Where the connector stands, as it stored it itself. What was deleted may be told as one of nothing."""
        answer = self._found("GET", f"/connectors/{name}/offsets")
        return tuple(each for each in answer["offsets"] if each["offset"]) if answer else ()

    def delete_offsets(self, name: str) -> None:
        """Only a stopped connector may forget where it was."""
        self._call("DELETE", f"/connectors/{name}/offsets", busy=OFFSETS_BUSY)

    def alter_offset(self, name: str, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> None:
        """Only a stopped connector may be told where it is. Connect cuts off what is left of its tasks first."""
        asked = {"offsets": [{"partition": partition, "offset": offset}]}
        self._call("PATCH", f"/connectors/{name}/offsets", asked, busy=OFFSETS_BUSY)

    def wait(self, name: str, timeout_s: float) -> ConnectorStatus:
        """Until it runs; a failure that lasts is raised with its cause."""
        began = time.monotonic()
        deadline = began + timeout_s
        while True:
            status = self.status(name)
            if status and status.running:
                return status
            if status and status.failed and time.monotonic() > began + min(SETTLE_S, timeout_s):
                raise CaptureError(f"connector {name} failed", detail=status.reason, hint="headwater logs connect")
            if time.monotonic() > deadline:
                state = status.summary if status else "absent"
                raise CaptureError(
                    f"connector {name} did not run within {timeout_s:g} s",
                    detail=f"its state is {state}",
                    hint="headwater logs connect",
                )
            time.sleep(REBALANCE_POLL_S)

    def wait_stopped(self, name: str, timeout_s: float) -> None:
        """Until no task of it is left."""
        deadline = time.monotonic() + timeout_s
        while (status := self.status(name)) is not None and (status.state != STOPPED or status.tasks):
            if time.monotonic() > deadline:
                raise CaptureError(
                    f"connector {name} did not stop within {timeout_s:g} s",
                    detail=f"its state is {status.summary}",
                    hint="headwater logs connect",
                )
            time.sleep(REBALANCE_POLL_S)

    def _found(self, method: str, path: str) -> Any:
        return self._call(method, path, missing_ok=True)

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        missing_ok: bool = False,
        busy: Collection[int] = BUSY,
    ) -> Any:
        deadline = time.monotonic() + REBALANCE_WAIT_S_MAX
        while True:
            try:
                answer = self._http.request(method, path, json=body)
            except httpx.HTTPError as error:
                raise CaptureError(
                    f"Kafka Connect at {self._url} does not answer",
                    detail=str(error) or type(error).__name__,
                    hint="headwater status; headwater logs connect",
                ) from error
            if answer.status_code == httpx.codes.NOT_FOUND and missing_ok:
                return None
            if answer.is_success:
                return self._parsed(answer)
            if answer.status_code not in busy or time.monotonic() > deadline:
                raise _refusal(method, path, answer)
            time.sleep(REBALANCE_POLL_S)

    def _parsed(self, answer: httpx.Response) -> Any:
        try:
            return answer.json() if answer.content else {}
        except ValueError as error:
            raise CaptureError(
                f"what answers at {self._url} is not Kafka Connect", detail=answer.text[:200], hint="headwater doctor"
            ) from error


def _refusal(method: str, path: str, answer: httpx.Response) -> CaptureError:
    try:
        told = answer.json()
    except ValueError:
        told = None
    message = str(told["message"]) if isinstance(told, dict) and "message" in told else answer.text
    return CaptureError(
        f"Kafka Connect refused {method} {path.split('?', maxsplit=1)[0]} ({answer.status_code})",
        detail=message[:2000],
        hint="headwater logs connect",
    )


def root_cause(trace: str) -> str:
    """The innermost `Caused by` of a Java stack trace, or its first line."""
    causes = [line.removeprefix("Caused by: ") for line in trace.splitlines() if line.startswith("Caused by: ")]
    return (causes or trace.splitlines() or [""])[-1 if causes else 0].strip()
