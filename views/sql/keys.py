"""What tells the rows of a node apart: candidate keys, and which columns determine which. Pure.

Everything here is proven from primary keys, groups, and equalities; nothing is guessed. A key may hold NULLs, which
count as equal, as in GROUP BY.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final, TypeAlias

from sqlglot import exp

from cdc.catalog import Catalog
from views.plan import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Named,
    Node,
    Project,
    Scan,
    SemiJoin,
    TopK,
    UnionAll,
    Window,
)
from views.sql.typed import columns_in, conjuncts, type_of
from views.sqltypes import Family

Columns: TypeAlias = frozenset[str]
Dependency: TypeAlias = tuple[Columns, Columns]
NOTHING: Final[Columns] = frozenset()
_KEYS_MAX: Final = 16
"""Candidates kept for a node: joins multiply them."""


@dataclass(frozen=True)
class Keys:
    candidates: tuple[Columns, ...] = ()
    dependencies: tuple[Dependency, ...] = ()
    either: tuple[Columns, ...] = ()
    """Two columns of a full join's sides, of which one may be NULL: their coalesce tells the rows apart."""

    def closure(self, columns: Iterable[str]) -> Columns:
        """All that the columns determine, themselves included."""
        known = set(columns)
        grew = True
        while grew:
            grew = False
            for have, give in self.dependencies:
                if have <= known and not give <= known:
                    known |= give
                    grew = True
        return frozenset(known)

    def decides(self, columns: Iterable[str]) -> bool:
        """Whether no two rows are equal in these columns."""
        known = self.closure(columns)
        return any(candidate <= known for candidate in self.candidates)

    def minimal(self) -> Keys:
        """Without columns that the others of a candidate determine, and without candidates that hold another."""
        small = {self._reduced(candidate) for candidate in self.candidates}
        kept = sorted((c for c in small if not any(o < c for o in small)), key=lambda c: (len(c), sorted(c)))
        return Keys(tuple(kept[:_KEYS_MAX]), self.dependencies, self.either)

    def _reduced(self, candidate: Columns) -> Columns:
        for column in sorted(candidate):
            if column in self.closure(candidate - {column}):
                candidate -= {column}
        return candidate


def keys_of(node: Node, catalog: Catalog) -> Keys:
    return _RULES[type(node)](node, catalog).minimal()


def plain(expression: exp.Expression) -> str | None:
    """The column that the expression is, or is a lossless cast of."""
    bare = expression
    while isinstance(bare, exp.Cast) and type_of(bare).family is type_of(bare.this).family is Family.INTEGER:
        bare = bare.this
    return bare.name if isinstance(bare, exp.Column) else None


def _scan(node: Node, catalog: Catalog) -> Keys:
    assert isinstance(node, Scan)
    key = frozenset(f"{node.alias}.{name}" for name in catalog.table(node.table).key)
    if not key or not key <= set(node.names):
        return Keys()
    return Keys((key,), ((key, frozenset(node.names)),))


def _filter(node: Node, catalog: Catalog) -> Keys:
    assert isinstance(node, Filter)
    found = keys_of(node.input, catalog)
    return Keys(found.candidates, (*found.dependencies, *_equalities(node.predicate)), found.either)


def _equalities(predicate: exp.Expression | None) -> list[Dependency]:
    """column = constant, column = column."""
    found: list[Dependency] = []
    for part in conjuncts(predicate):
        if not isinstance(part, exp.EQ) or isinstance(part.expression, exp.Any):
            continue
        for one, other in ((part.this, part.expression), (part.expression, part.this)):
            column = plain(one)
            if column is not None and not columns_in(other):
                found.append((NOTHING, frozenset({column})))
            elif column is not None and (second := plain(other)) is not None:
                found.append((frozenset({second}), frozenset({column})))
    return found


def _project(node: Node, catalog: Catalog) -> Keys:
    assert isinstance(node, Project)
    return _renamed(keys_of(node.input, catalog), node.columns)


def _renamed(keys: Keys, columns: Iterable[Named]) -> Keys:
    """What is left to say under the new names."""
    named = tuple(columns)
    places: dict[str, list[str]] = {}
    for name, value in named:
        if (column := plain(value)) is not None:
            places.setdefault(column, []).append(name)
    merged = [(name, pair) for name, value in named for pair in keys.either if _is_coalesce(value, pair)]
    places |= {f"coalesce {name}": [name] for name, _ in merged}
    extra = [(frozenset({f"coalesce {name}"}), pair) for name, pair in merged]
    known = Keys(keys.candidates, (*keys.dependencies, *extra))

    def visible(old: Columns) -> Columns | None:
        new = [_stand_in(column, places, known) for column in old]
        return None if None in new else frozenset(name for name in new if name is not None)

    dependencies: list[Dependency] = []
    for have, _ in keys.dependencies:
        if (lead := visible(have)) is not None:
            reached = keys.closure(have)
            follow = frozenset(n for old, names in places.items() if old in reached for n in names)
            dependencies.append((lead, follow | _computed(named, reached)))
    for names in places.values():
        dependencies += [(frozenset({a}), frozenset({b})) for a in names for b in names if a != b]
    dependencies += [(NOTHING, frozenset({name})) for name, value in named if not columns_in(value)]
    found = (visible(candidate) for candidate in keys.candidates)
    return Keys(tuple(candidate for candidate in found if candidate is not None), tuple(dependencies))


def _is_coalesce(value: exp.Expression, pair: Columns) -> bool:
    if not isinstance(value, exp.Anonymous) or value.name != "coalesce" or len(value.expressions) != 2:
        return False
    return {plain(part) for part in value.expressions} == pair


def _computed(columns: Iterable[Named], reached: Columns) -> Columns:
    return frozenset(name for name, value in columns if columns_in(value) <= reached)


def _stand_in(column: str, places: Mapping[str, list[str]], keys: Keys) -> str | None:
    """The column's new name, or that of a visible one that determines it."""
    if column in places:
        return places[column][0]
    return next((names[0] for old, names in places.items() if column in keys.closure({old})), None)


def _aggregate(node: Node, catalog: Catalog) -> Keys:
    assert isinstance(node, Aggregate)
    inner = _renamed(keys_of(node.input, catalog), node.groups)
    groups = frozenset(name for name, _ in node.groups)
    return Keys((groups,), (*inner.dependencies, (groups, frozenset(node.names))))


def _distinct(node: Node, catalog: Catalog) -> Keys:
    assert isinstance(node, Distinct)
    found = keys_of(node.input, catalog)
    return Keys((*found.candidates, frozenset(node.names)), found.dependencies)


def _top(node: Node, catalog: Catalog) -> Keys:
    assert isinstance(node, TopK)
    found = keys_of(node.input, catalog)
    partition = [plain(part) for part in node.partition]
    if node.limit > 1 or None in partition:
        return found
    key = frozenset(name for name in partition if name is not None)
    return Keys((*found.candidates, key), (*found.dependencies, (key, frozenset(node.names))))


def _window(node: Node, catalog: Catalog) -> Keys:
    assert isinstance(node, Window)
    found = keys_of(node.input, catalog)
    whole = frozenset(node.names)
    dependencies = [*found.dependencies, *((candidate, whole) for candidate in found.candidates)]
    candidates = list(found.candidates)
    partition = [plain(part) for part in node.partition]
    if None not in partition:
        for name, value in node.columns:
            if isinstance(value.this, exp.RowNumber):
                candidates.append(frozenset({name, *(part for part in partition if part is not None)}))
    return Keys(tuple(candidates), tuple(dependencies))


def _semi_join(node: Node, catalog: Catalog) -> Keys:
    assert isinstance(node, SemiJoin)
    return keys_of(node.left, catalog)


def _join(node: Node, catalog: Catalog) -> Keys:
    assert isinstance(node, Join)
    left, right = keys_of(node.left, catalog), keys_of(node.right, catalog)
    pairs = list(product(left.candidates, right.candidates))
    candidates = tuple(a | b for a, b in pairs[: _KEYS_MAX * _KEYS_MAX])
    dependencies: list[Dependency] = []
    match node.kind:
        case JoinKind.INNER:
            dependencies += [*left.dependencies, *right.dependencies, *_equalities(node.residual)]
            for a, b in zip(node.left_keys, node.right_keys, strict=True):
                dependencies += _equalities(exp.EQ(this=a.copy(), expression=b.copy()))
        case JoinKind.LEFT:
            dependencies += [*left.dependencies, *_extended(node.right, right)]
            dependencies += _matched(node.left_keys, node.right_keys, right, node.right)
        case JoinKind.RIGHT:
            dependencies += [*right.dependencies, *_extended(node.left, left)]
            dependencies += _matched(node.right_keys, node.left_keys, left, node.left)
        case JoinKind.FULL:
            dependencies += [*_extended(node.left, left), *_extended(node.right, right)]
            return Keys(candidates, tuple(dependencies), _either(node, left, right))
    return Keys(candidates, tuple(dependencies))


def _either(node: Join, left: Keys, right: Keys) -> tuple[Columns, ...]:
    """One key column on each side, unique there, and nothing else that decides the match."""
    a, b = [plain(e) for e in node.left_keys], [plain(e) for e in node.right_keys]
    if len(a) != 1 or node.residual is not None or a[0] is None or b[0] is None:
        return ()
    never_null = {f.name for side in (node.left, node.right) for f in side.fields if not f.nullable}
    if not left.decides([a[0]]) or not right.decides([b[0]]) or not {a[0], b[0]} <= never_null:
        return ()
    return (frozenset({a[0], b[0]}),)


def _extended(side: Node, keys: Keys) -> list[Dependency]:
    """What holds also where the side is filled with NULLs: a determinant that was never NULL is NULL only there."""
    never_null = {f.name for f in side.fields if not f.nullable}
    return [(have, give) for have, give in keys.dependencies if have and have <= never_null]


def _matched(
    outer: Iterable[exp.Expression], inner: Iterable[exp.Expression], keys: Keys, side: Node
) -> list[Dependency]:
    """Where the join finds at most one partner, what the outer key is computed from determines it."""
    found = [name for name in map(plain, inner) if name is not None]
    if not keys.decides(found):
        return []
    return [(frozenset().union(*map(columns_in, outer)), frozenset(side.names))]


def _union(node: Node, catalog: Catalog) -> Keys:
    """Branches are told apart by a column that is another constant in each; their keys do the rest."""
    assert isinstance(node, UnionAll)
    tags = [place for place in range(len(node.names)) if _is_tag(node, place)]
    if not tags:
        return Keys()
    tag = node.names[tags[0]]
    found: list[Columns] = []
    for choice in product(*(keys_of(branch, catalog).candidates for branch in node.branches)):
        places = {branch.names.index(n) for branch, key in zip(node.branches, choice, strict=True) for n in key}
        found.append(frozenset({tag, *(node.names[place] for place in places)}))
    return Keys(tuple(found[:_KEYS_MAX]))


def _is_tag(node: UnionAll, place: int) -> bool:
    constants = []
    for branch in node.branches:
        value = _traced(branch, branch.names[place])
        if not isinstance(value, exp.Literal):
            return False
        constants.append(value.name)
    return len(set(constants)) == len(constants)


def _traced(node: Node, name: str) -> exp.Expression | None:
    """How the column is computed, through projections."""
    if not isinstance(node, Project):
        return None
    value = dict(node.columns)[name]
    return _traced(node.input, value.name) if isinstance(value, exp.Column) else value


_RULES: Final[dict[type[Node], Callable[[Node, Catalog], Keys]]] = {
    Scan: _scan,
    Filter: _filter,
    Project: _project,
    Aggregate: _aggregate,
    Distinct: _distinct,
    TopK: _top,
    Window: _window,
    SemiJoin: _semi_join,
    Join: _join,
    UnionAll: _union,
}
