"""`headwater explain`: how a view is computed, what it remembers for that, and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.output import JsonOption, bytes_text, line, print_json, table

if TYPE_CHECKING:
    from headwater.views.kept import Occupied
    from headwater.views.place import Place
    from views.sql import ViewPlan


_NAME_MAX: Final = 60


def register(app: typer.Typer) -> None:
    app.command("explain")(explain)


def explain(
    what: Annotated[str, typer.Argument(metavar="VIEW|FILE", help="A view that is applied, or a .sql file.")],
    as_json: JsonOption = False,
) -> None:
    """The SQL, the key, the plan, and the rows and bytes of every arrangement on the way."""
    from headwater.views.place import Place

    place = Place.here()
    if Path(what).is_file():
        told = [_object(place, plan, []) for plan in _declared(place, Path(what))]
    else:
        told = [_kept(place, what)]
    if as_json:
        print_json(told if len(told) > 1 else told[0])
        return
    for each in told:
        print_view(each)


def _declared(place: Place, file: Path) -> list[ViewPlan]:
    from cdc.errors import ConfigurationError
    from headwater.cli.plan import made

    found, _ = made(place, file, ())
    for change in found.changes:
        if change.refusal is not None:
            raise change.refusal.error
    plans = [change.declared.plan for change in found.changes if change.declared is not None]
    if not plans:
        raise ConfigurationError(f"no view in {file}", hint="CREATE MATERIALIZED VIEW name AS SELECT …")
    return plans


def _kept(place: Place, view: str) -> dict[str, object]:
    from headwater.views.explained import arranged, planned
    from headwater.views.kept import Frontiers

    plan = planned(place.registry, view)
    frontiers = Frontiers(place.deployment.kafka, place.deployment.source).look()
    return _object(place, plan, arranged(place.registry, frontiers, view))


def _object(place: Place, plan: ViewPlan, arrangements: list[Occupied]) -> dict[str, object]:
    from headwater.views.cost import cost_of
    from headwater.views.declared import tables_of
    from views.explain import explain as explained
    from views.maintain.publisher import view_topic

    cost = cost_of(plan.root)
    return {
        "view": plan.view.name,
        "key": plan.key,
        "is_key_inferred": plan.view.key is None,
        "columns": {field.name: str(field.type) for field in plan.root.fields},
        "tables": [str(table) for table in tables_of(plan.root)],
        "topic": view_topic(place.deployment.source, plan.view.name),
        "tier": cost.tier,
        "cost": cost.text,
        "sql": plan.view.sql,
        "plan": explained(plan.root),
        "arrangements": arrangements,
    }


def print_view(told: dict[str, object]) -> None:
    key = ", ".join(told["key"]) if isinstance(told["key"], tuple) else ""
    line((str(told["view"]), "bold"))
    line(f"key     {key}{' (inferred)' if told['is_key_inferred'] else ''}")
    line(f"topic   {told['topic']}")
    line(f"tier    {told['tier']}: {told['cost']}")
    for title in ("sql", "plan"):
        line()
        for row in str(told[title]).splitlines():
            line(f"  {row}")
    arrangements = told["arrangements"]
    if isinstance(arrangements, list) and arrangements:
        line()
        rows = [
            (a.kind, _shortened(a.name), " | ".join(a.key), f"{a.rows:,}", bytes_text(a.bytes)) for a in arrangements
        ]
        table(("arrangement", "of", "key", "rows", "size"), rows)


def _shortened(text: str) -> str:
    return text if len(text) <= _NAME_MAX else f"{text[: _NAME_MAX - 1]}…"
