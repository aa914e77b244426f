"""`headwater alerts`: saved searches of anybody, for who runs the service. Owners use the HTTP API, docs/alerts.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headwater.cli import alerts_checks
from headwater.cli.output import JsonOption, line, print_json, table
from headwater.cli.source import acting

if TYPE_CHECKING:
    from headwater.saved_searches import SavedSearches
    from search.explain import Explanation

LOCAL: Final = "local"
QUERY_SHOWN_MAX: Final = 60

IdArgument = Annotated[int, typer.Argument(metavar="ID", help="As `headwater alerts list` shows it.")]
ViewArgument = Annotated[str, typer.Argument(metavar="VIEW")]
QueryArgument = Annotated[str, typer.Argument(metavar="QUERY", help="As in a search: city:paris price:..500000")]
OwnerOption = Annotated[str, typer.Option("--owner", metavar="OWNER", help="Whose it is.")]
SetOption = Annotated[
    list[str],
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A field of docs/alerts.md, such as channel=email; lists with commas."
    ),
]
DaysOption = Annotated[int, typer.Option("--days", metavar="N", min=0, help="How far back events are counted.")]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="Saved searches: who is told what.")
    for name, verb in (
        ("list", list_alerts), ("add", add), ("show", show), ("edit", edit), ("pause", pause), ("resume", resume),
        ("remove", remove), ("secret", secret), ("preview", preview), ("explain", explain),
        ("test", alerts_checks.send_test), ("sweep", alerts_checks.sweep),
    ):  # fmt: skip
        verbs.command(name)(verb)
    app.add_typer(verbs, name="alerts")


def list_alerts(
    owner: OwnerOption = "",
    after: Annotated[int, typer.Option("--after", metavar="ID", min=0, help="Go on after this one.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Saved searches, of one owner or of everybody: 10,000 at a time."""
    searches = open_searches()
    found, next_ = (searches.listed(owner), None) if owner else searches.everybodys(after)
    told = searches.all_told(found)
    if as_json:
        print_json({"alerts": told, "next": next_})
        return
    rows = [
        (each["id"], each["owner"], each["state"], each["view"], _short(each), ", ".join(each["events"]), _where(each))
        for each in told
    ]
    styles = {"active": "green", "paused": "yellow", "expired": "dim", "unsubscribed": "dim"}
    styles |= dict.fromkeys(("broken", "unreachable"), "red")
    table(("id", "owner", "state", "view", "query", "events", "to"), rows, styles=styles)
    for each in told:
        if each["trouble"]:
            line((f"{each['id']}: {each['trouble']}", "red"))
    if next_ is not None:
        line((f"there are more: headwater alerts list --after {next_}", "yellow"))


def add(
    view: ViewArgument,
    query: QueryArgument,
    owner: OwnerOption = LOCAL,
    fields: SetOption = [],  # noqa: B006 - typer copies it
    as_json: JsonOption = False,
) -> None:
    """Save a search: it tells of what is committed from now on. What a webhook is signed with is shown here."""
    searches = open_searches()
    with acting("alerts add", owner=owner, view=view):
        made = searches.create(owner, {**parse_fields(fields), "view": view, "query": query})
    _print_one(searches.told_with_secret(made), as_json)


def show(id_: IdArgument, as_json: JsonOption = False) -> None:
    """One saved search with all its fields."""
    searches = open_searches()
    _print_one(searches.told(searches.read(searches.owner_of(id_), id_)), as_json)


def edit(
    id_: IdArgument,
    fields: SetOption = [],  # noqa: B006 - typer copies it
    as_json: JsonOption = False,
) -> None:
    """Change fields of a saved search: --set frequency=daily --set query='city:lyon'.

    Told by another webhook, what that is signed with is shown here.
    """
    from headwater.saved_searches import names_target

    searches = open_searches()
    changed = parse_fields(fields)
    with acting("alerts edit", id=id_, fields=sorted(changed)):
        edited = searches.update(searches.owner_of(id_), id_, changed)
    _print_one(searches.told_with_secret(edited, is_shown=names_target(changed)), as_json)


def pause(id_: IdArgument, as_json: JsonOption = False) -> None:
    """Tell nothing of it until it is resumed; what happens meanwhile is not told later."""
    _set(id_, {"paused": True}, as_json)


def resume(id_: IdArgument, as_json: JsonOption = False) -> None:
    """Go on telling, also after it was unsubscribed."""
    _set(id_, {"paused": False}, as_json)


def remove(id_: IdArgument, as_json: JsonOption = False) -> None:
    """Remove a saved search; what it told stays in its owner's inbox."""
    searches = open_searches()
    with acting("alerts remove", id=id_):
        searches.remove(searches.owner_of(id_), id_)
    if as_json:
        print_json({"id": id_, "state": "removed"})
    else:
        line(f"saved search {id_} is removed")


def secret(id_: IdArgument, as_json: JsonOption = False) -> None:
    """Another secret for a webhook; the one before it signs beside it until the next."""
    searches = open_searches()
    with acting("alerts secret", id=id_):
        made = searches.rotate_secret(searches.owner_of(id_), id_)
    if as_json:
        print_json({"id": id_, "secret": made})
    else:
        line(("secret: ", "cyan"), made)


def preview(
    view: ViewArgument,
    query: QueryArgument,
    fields: SetOption = [],  # noqa: B006 - typer copies it
    days: DaysOption = 7,
    key: Annotated[str, typer.Option("--key", help="Instead: why the row of this key matches now or does not.")] = "",
    as_json: JsonOption = False,
) -> None:
    """How many rows match now, and what would have been told in the last days. Saves nothing."""
    if key:
        _try_out({**parse_fields(fields), "view": view, "query": query}, key, as_json=as_json)
        return
    found = open_searches().preview({**parse_fields(fields), "view": view, "query": query}, days)
    if as_json:
        print_json(found)
        return
    line(f"matching now: {found['matching'] if found['matching'] is not None else found['matching_unknown']}")
    if found["events"] is None:
        line(f"in the last {days} days: {found['events_unknown']}")
    else:
        counted = ", ".join(f"{count} {event}" for event, count in found["events"].items())
        line(f"in the last {found['days']} days: {counted}")
        line((f"{found['per_day']:g} a day", "dim"))
    for note in found["notes"]:
        line((note, "dim"))


def _try_out(wish: dict[str, Any], key: str, *, as_json: bool) -> None:
    import msgspec

    from headwater.saved_searches import told_trial

    found = open_searches().try_out(wish, key)
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(told_trial(found)), indent=2))
        return
    _print_match(found.view, found.row, found.explanation)


def _print_match(view: str, row: bytes | None, explanation: Explanation | None) -> None:
    """Why the row matches or does not, clause by clause."""
    if row is None:
        line(f"no row of {view} has this key")
    for text in explanation.lines() if explanation else ():
        line(text)


def explain(
    id_: IdArgument,
    key: Annotated[list[str], typer.Argument(metavar="KEY…", help="id=5 line=2, or the values in the key's order.")],
    as_json: JsonOption = False,
) -> None:
    """Why a row matches a saved search now or does not, and what was told of it."""
    import msgspec

    from headwater.saved_searches import told_explanation

    searches = open_searches()
    found = searches.explain(searches.owner_of(id_), id_, key)
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(told_explanation(found)), indent=2))
        return
    _print_match(found.search.wish.view, found.row, found.explanation)
    if found.condition.state != "active":
        line((f"{found.condition.state}: {found.condition.trouble or 'nothing is told'}", "red"))
    for note in (*([str(found.told_value)] if found.told_value else []), *found.notes):
        line(note)
    for news in found.news:
        waiting = f"waits until {news.due_at:%Y-%m-%d %H:%M:%S}" if news.due_at else "waiting"
        what = f"not sent: {news.dropped_reason}" if news.dropped_reason else "told" if news.told_at else waiting
        line((f"{news.recorded_at:%Y-%m-%d %H:%M:%S} {news.event} ({news.reason}), {what}", "dim"))


def parse_fields(words: list[str]) -> dict[str, Any]:
    """`--set` as the fields that HTTP takes: numbers, booleans and lists by the field's sort."""
    from alerts.saved_search import FIELDS
    from cdc.errors import ConfigurationError
    from search.errors import nearest

    given: dict[str, Any] = {}
    for word in words:
        name, sign, text = word.partition("=")
        if not sign or name not in FIELDS:
            raise ConfigurationError(f"not a field of a saved search: {word!r}", hint=nearest(name, FIELDS))
        given[name] = _value(name, text)
    return given


def _value(name: str, text: str) -> Any:
    if name in ("events", "columns"):
        return [part.strip() for part in text.split(",") if part.strip()]
    if name in ("digest_hour", "digest_weekday", "cap_per_day", "reenter_s") and text.isdigit():
        return int(text)
    if name == "paused" and text in ("true", "false"):
        return text == "true"
    nullable = ("watched_column", "threshold", "quiet_from", "quiet_to", "cap_per_day", "reenter_s", "expires_at")
    return None if name in nullable and not text else text


def open_searches() -> SavedSearches:
    from headwater.api.shapes import Shapes
    from headwater.deployment import Deployment
    from headwater.saved_searches import SavedSearches
    from headwater.settings import load
    from views.maintain.registry import Registry

    settings = load()
    deployment = Deployment.resolve(settings)
    return SavedSearches.of(deployment, Shapes(Registry(settings.views_state), deployment.source))


def _set(id_: int, fields: dict[str, Any], as_json: bool) -> None:
    searches = open_searches()
    with acting("alerts pause" if fields["paused"] else "alerts resume", id=id_):
        changed = searches.update(searches.owner_of(id_), id_, fields)
    _print_one(searches.told(changed), as_json)


def _print_one(told: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(told)
        return
    for name, value in told.items():
        if name != "query" and value not in (None, "", (), []):
            line((f"{name}: ", "cyan"), ", ".join(value) if isinstance(value, tuple) else str(value))


def _short(told: dict[str, Any]) -> str:
    text = told["query_text"] if told["query_text"] is not None else str(told["query"])
    return text if len(text) <= QUERY_SHOWN_MAX else f"{text[: QUERY_SHOWN_MAX - 1]}…"


def _where(told: dict[str, Any]) -> str:
    target = f" {told['target']}" if told["target"] else ""
    return f"{told['channel']}{target}, {told['frequency']}"
