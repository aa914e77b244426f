"""A view's plan as a drawing: tables on the left, the view on the right, data flowing between them. Pure geometry.

Boxes are as high as their text; an operator stands beside the middle of what it reads, so lines never cross.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from headwater.views.kept import Occupied
from views.explain import describe
from views.plan import Aggregate, Distinct, Filter, Join, Node, Project, Scan, SemiJoin, TopK, UnionAll, Window

WIDTH: Final = 196
GAP_X: Final = 40
GAP_Y: Final = 18
LINE: Final = 16
PADDING: Final = 10
CHARACTERS: Final = 26
LINES_MAX: Final = 3
_KINDS: Final = (
    (Scan, "table"), (Filter, "filter"), (Project, "project"), (Join, "join"), (SemiJoin, "join"),
    (Aggregate, "aggregate"), (Distinct, "distinct"), (UnionAll, "union"), (TopK, "top"), (Window, "window"),
)  # fmt: skip


@dataclass(frozen=True)
class Box:
    kind: str
    title: str
    lines: tuple[str, ...]
    whole: str
    """All of what it says, for who points at it or hears it read."""
    rows: int | None = None
    bytes: int | None = None
    x: float = 0.0
    y: float = 0.0
    height: float = 0.0

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


@dataclass(frozen=True)
class Drawing:
    boxes: tuple[Box, ...]
    lines: tuple[str, ...]
    """Paths, from the right side of one box to the left side of another."""
    width: float
    height: float
    box_width: int = WIDTH
    line_height: int = LINE


@dataclass
class _Tree:
    box: Box
    inputs: list[_Tree] = field(default_factory=list)

    @property
    def depth(self) -> int:
        return 1 + max((each.depth for each in self.inputs), default=0)


def draw(root: Node, view: str, key: Sequence[str], arrangements: Sequence[Occupied]) -> Drawing:
    tree = _Tree(_view_box(view, key, arrangements), [_tree(root, arrangements)])
    columns = tree.depth
    placed: list[Box] = []
    lines: list[str] = []
    bottom = _place(tree, columns - 1, 0.0, placed, lines)
    return Drawing(tuple(placed), tuple(lines), columns * WIDTH + (columns - 1) * GAP_X, max(0.0, bottom - GAP_Y))


def _tree(node: Node, arrangements: Sequence[Occupied]) -> _Tree:
    return _Tree(_box(node, arrangements), [_tree(each, arrangements) for each in node.inputs])


def _box(node: Node, arrangements: Sequence[Occupied]) -> Box:
    kind = next((name for type_, name in _KINDS if isinstance(node, type_)), type(node).__name__.lower())
    whole = describe(node)
    title, _, rest = whole.partition(" on ") if kind == "join" else whole.partition(" ")
    if isinstance(node, Scan):
        title, rest = str(node.table.name), f"{len(node.columns)} columns"
        held = _held(arrangements, "table", str(node.table))
    else:
        held = _held(arrangements, "stage", whole)
    return _sized(kind, title, rest, whole, held)


def _view_box(view: str, key: Sequence[str], arrangements: Sequence[Occupied]) -> Box:
    return _sized(
        "view", view, f"key {', '.join(key)}", f"view {view}, key {', '.join(key)}", _held(arrangements, "view", view)
    )


def _sized(kind: str, title: str, rest: str, whole: str, held: Occupied | None) -> Box:
    lines = textwrap.wrap(rest, CHARACTERS, max_lines=LINES_MAX, placeholder=" …", break_long_words=True)
    title = title if len(title) <= CHARACTERS - 4 else f"{title[: CHARACTERS - 5]}…"
    height = 2 * PADDING + LINE * (1 + len(lines) + (held is not None))
    return Box(
        kind, title, tuple(lines), whole, held.rows if held else None, held.bytes if held else None, height=height
    )


def _held(arrangements: Sequence[Occupied], kind: str, name: str) -> Occupied | None:
    return next((each for each in arrangements if each.kind == kind and each.name == name), None)


def _place(tree: _Tree, column: int, top: float, placed: list[Box], lines: list[str]) -> float:
    """Puts the tree below `top`; where the next one may begin. The tree's own box is placed last."""
    bottom, inputs = top, []
    for each in tree.inputs:
        bottom = _place(each, column - 1, bottom, placed, lines)
        inputs.append(placed[-1])
    middle = (inputs[0].middle + inputs[-1].middle) / 2 if inputs else top + tree.box.height / 2
    box = _moved(tree.box, column * (WIDTH + GAP_X), max(top, middle - tree.box.height / 2))
    lines += [_path(each, box) for each in inputs]
    placed.append(box)
    return max(bottom, box.y + box.height + GAP_Y)


def _moved(box: Box, x: float, y: float) -> Box:
    return Box(box.kind, box.title, box.lines, box.whole, box.rows, box.bytes, x, y, box.height)


def _path(start: Box, end: Box) -> str:
    x1, y1, x2, y2 = start.x + WIDTH, start.middle, end.x, end.middle
    bend = max(GAP_X / 2, min(GAP_X, (x2 - x1) / 2))
    straight = f"M{x1:.1f} {y1:.1f} L{x2 - GAP_X:.1f} {y1:.1f}"
    return f"{straight} C{x2 - GAP_X + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
