"""One property for all operators: integrating a stage's output deltas gives the operator over the integrated input,
after every epoch, however the input is cut into epochs. The fast stages and the general one are held to the same
oracle: the operator's SQL over the whole input, in one go."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.views.plans import LEFT, NODES, RIGHT, delta, integrated, open_state, rows
from views.plan import Node
from views.stages import Stage, recompute_for, stage_for

GENERAL = {name: recompute_for(node) for name, node in NODES.items()}
BEST = {name: stage_for(node) for name, node in NODES.items()}
FAST = [name for name in NODES if type(BEST[name]) is not type(GENERAL[name])]


@st.composite
def histories(draw: st.DrawFn) -> list[list[list[tuple[tuple[object, ...], int]]]]:
    """Epochs, of two inputs' changes each; a row leaves only if it is there."""
    held: list[list[tuple[object, ...]]] = [[], []]
    epochs = []
    for _ in range(draw(st.integers(1, 5))):
        epoch: list[list[tuple[tuple[object, ...], int]]] = [[], []]
        for side in (0, 1):
            for _ in range(draw(st.integers(0, 5))):
                if held[side] and draw(st.booleans()):
                    row = held[side].pop(draw(st.integers(0, len(held[side]) - 1)))
                    epoch[side].append((row, -1))
                else:
                    row = draw(rows)
                    held[side].append(row)
                    epoch[side].append((row, 1))
        epochs.append(epoch)
    return epochs


def deltas_of(node: Node, epoch: list[list[tuple[tuple[object, ...], int]]]) -> list[pa.Table]:
    return [delta(scan, changes) for scan, changes in zip((LEFT, RIGHT)[: len(node.inputs)], epoch, strict=False)]


def over_everything(stage: Stage, inputs: list[pa.Table], folder: Path) -> dict[tuple[str, ...], int]:
    """The operator's SQL over all rows, in one epoch."""
    with open_state(folder, stage) as state:
        return integrated([stage.apply(0, inputs, state)], stage.schema)


def check(name: str, stage: Stage, epochs: list[list[list[tuple[tuple[object, ...], int]]]]) -> None:
    node = NODES[name]
    with tempfile.TemporaryDirectory() as folder, open_state(Path(folder) / "state", stage) as state:
        inputs: list[list[pa.Table]] = [[] for _ in node.inputs]
        outputs: list[pa.Table] = []
        for number, epoch in enumerate(epochs):
            deltas = deltas_of(node, epoch)
            outputs.append(stage.apply(number, deltas, state))
            assert stage.apply(number, deltas, state).equals(outputs[-1]), "a repeated epoch gives the saved output"
            for known, more in zip(inputs, deltas, strict=True):
                known.append(more)
            expected = over_everything(
                GENERAL[name], [pa.concat_tables(known) for known in inputs], Path(folder) / f"{number}"
            )
            assert integrated(outputs, stage.schema) == expected


@pytest.mark.parametrize("name", NODES)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(epochs=histories())
def test_recompute(name: str, epochs: list[list[list[tuple[tuple[object, ...], int]]]]) -> None:
    check(name, GENERAL[name], epochs)


@pytest.mark.parametrize("name", FAST)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(epochs=histories())
def test_fast_stage(name: str, epochs: list[list[list[tuple[tuple[object, ...], int]]]]) -> None:
    check(name, BEST[name], epochs)


def test_which_are_fast() -> None:
    slow = {"lists by city", "lists of all", "window", "semi join with more", "anti join with more"}
    slow |= {f"{kind} join with more" for kind in ("left", "right", "full")}
    assert set(NODES) - set(FAST) == slow
