"""The delivery bench on a tiny run: its shape, and that everything arrived. No figure is judged."""

from __future__ import annotations

import json

import pytest

from headwater import cli


@pytest.mark.parametrize("store", ["memory", "postgres"])
def test_shape(capsys: object, store: str) -> None:
    words = ["bench", "delivery", "--json", "--rate", "20", "--seconds", "1", "--endpoints", "4", "--hanging", "1"]
    assert cli.run([*words, "--backlog", "20", "--waiting", "3", "--store", store]) == 0
    found = json.loads(capsys.readouterr().out)  # type: ignore[attr-defined]
    figures = {"webhooks_per_s", "cpu_ms", "p50_ms", "p99_ms", "backlog_webhooks_per_s", "backlog_cpu_ms"}
    assert figures <= found.keys()
    assert found["delivered"] >= found["samples"] + 20
    assert found["conditions"]["plan"]["hanging"] == 1
    assert found["conditions"]["store"] == store
