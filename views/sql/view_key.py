"""A view's key: inferred where the definition names none, proven where it does. Two rows must never share it."""

from __future__ import annotations

from cdc.catalog import Catalog
from views.definition import ViewDefinition
from views.plan import Node
from views.refusals import Reason, nearest, refusal
from views.sql.keys import Keys, keys_of


def view_key(definition: ViewDefinition, root: Node, catalog: Catalog) -> tuple[str, ...]:
    keys = keys_of(root, catalog)
    if definition.key is None:
        return _inferred(definition, root, keys)
    for name in definition.key:
        if name not in root.names:
            hint = nearest(name, root.names)
            raise refusal(Reason.UNKNOWN_COLUMN, f'key column "{name}" is not in the view', definition.query, hint=hint)
    if not definition.key or not keys.decides(definition.key):
        raise refusal(
            Reason.NO_KEY,
            f"two rows could share the key ({', '.join(definition.key)})",
            definition.query,
            detail=f"proven keys are {_listed(keys)}" if keys.candidates else "the rows have no key that can be proven",
            hint=_hint(keys),
        )
    return definition.key


def _inferred(definition: ViewDefinition, root: Node, keys: Keys) -> tuple[str, ...]:
    if keys.candidates:
        chosen = keys.candidates[0]
        if chosen:
            return tuple(name for name in root.names if name in chosen)
        return root.names[:1]
    raise refusal(
        Reason.NO_KEY,
        "the view's rows have no key that can be proven",
        definition.query,
        detail="readers look rows up by it, and sinks write by it",
        hint=_hint(keys),
    )


def _hint(keys: Keys) -> str:
    if keys.candidates and keys.candidates[0]:
        return f"WITH (key = '{', '.join(sorted(keys.candidates[0]))}')"
    return "select the primary keys of the joined tables, or GROUP BY or DISTINCT what tells the rows apart"


def _listed(keys: Keys) -> str:
    return " or ".join(f"({', '.join(sorted(candidate))})" for candidate in keys.candidates)
