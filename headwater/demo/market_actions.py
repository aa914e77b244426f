"""What happens on the property market, one function for each thing. Each leaves the market consistent by itself.

Rows that an action is going to change are locked when they are chosen, and rows that someone else holds are passed
over, so that several movers, or a person with psql, can work on the same data.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from headwater.demo import market, words
from headwater.demo.rows import Price
from headwater.demo.turn import Turn

HANDED_OVER_MAX: Final = 25
"""Listings that change hands in one transaction."""
PHOTO_POSITION_MAX: Final = 32_767
"""What a smallint holds."""


def list_property(turn: Turn) -> int:
    """A new listing with its photos and its first price, in one transaction."""
    agent = turn.one(
        "SELECT id FROM public.agents WHERE id >= %s ORDER BY id LIMIT 1 FOR KEY SHARE", turn.id_from("agents")
    )
    number = turn.one("SELECT nextval(pg_get_serial_sequence('public.listings', 'id'))")
    if agent is None or number is None:
        return 0
    fresh = market.listing(turn.draw, number[0], agent[0], turn.at)
    rows = turn.insert("listings", fresh) + _record_price(turn, fresh.id, fresh.price)
    return rows + sum(turn.insert("photos", photo) for photo in market.photos(turn.draw, fresh.id))


def change_price(turn: Turn) -> int:
    found = turn.one(
        "SELECT id, price FROM public.listings WHERE id >= %s AND status = 'for_sale'"
        " ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
        turn.id_from("listings"),
    )
    if found is None:
        return 0
    listing_id, price = found
    other = market.reprice(turn.draw, price)
    rows = turn.change(
        "UPDATE public.listings SET price = %s, updated_at = %s WHERE id = %s", other, turn.at, listing_id
    )
    return rows + _record_price(turn, listing_id, other)


def accept_offer(turn: Turn) -> int:
    return _move_status(turn, "for_sale", "under_offer")


def lose_offer(turn: Turn) -> int:
    return _move_status(turn, "under_offer", "for_sale")


def sell(turn: Turn) -> int:
    """Sold: the viewings still to come are called off with it."""
    listing_id = _listing(turn, "under_offer") or _listing(turn, "for_sale")
    if listing_id is None:
        return 0
    rows = turn.change("DELETE FROM public.viewings WHERE listing_id = %s", listing_id)
    return rows + _set_status(turn, listing_id, "sold")


def withdraw(turn: Turn) -> int:
    """Off the market: the listing goes, and its children before it."""
    found = turn.one(
        "SELECT id FROM public.listings WHERE id >= %s ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
        turn.id_from("listings"),
    )
    if found is None:
        return 0
    return (
        turn.change("DELETE FROM public.photos WHERE listing_id = %s", found[0])
        + turn.change("DELETE FROM public.viewings WHERE listing_id = %s", found[0])
        + turn.change("DELETE FROM public.price_history WHERE listing_id = %s", found[0])
        + turn.change("DELETE FROM public.listings WHERE id = %s", found[0])
    )


def rewrite_description(turn: Turn) -> int:
    """A sentence more about the surroundings, once. A survey beside it is not touched, so the log does not carry it."""
    sentence = turn.draw.one(words.AROUND)
    return turn.change(
        "UPDATE public.listings SET description = description || ' ' || %s, updated_at = %s"
        " WHERE id = (SELECT id FROM public.listings WHERE id >= %s AND strpos(description, %s) = 0"
        " ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)",
        sentence,
        turn.at,
        turn.id_from("listings"),
        sentence,
    )


def reorder_photos(turn: Turn) -> int:
    """The first photo becomes the last: its key changes."""
    return turn.change(
        "WITH album AS (SELECT listing_id, min(position) AS first, max(position) AS last FROM public.photos"
        " WHERE listing_id = %s GROUP BY listing_id)"
        " UPDATE public.photos p SET position = album.last + 1 FROM album"
        " WHERE p.listing_id = album.listing_id AND p.position = album.first AND album.first < album.last"
        " AND album.last < %s",
        _listing(turn, "for_sale"),
        PHOTO_POSITION_MAX,
    )


def book_viewing(turn: Turn) -> int:
    """Now and then the first appointment is given up again before the transaction commits (a savepoint rolled back)."""
    listing_id = _listing(turn, "for_sale")
    if listing_id is None:
        return 0
    if turn.draw.chance(0.2):
        turn.cur.execute("SAVEPOINT first_choice")
        turn.insert("viewings", market.viewing(turn.draw, 0, listing_id, turn.at), numbered=True)
        turn.cur.execute("ROLLBACK TO SAVEPOINT first_choice")
    return turn.insert("viewings", market.viewing(turn.draw, 0, listing_id, turn.at), numbered=True)


def cancel_viewing(turn: Turn) -> int:
    return turn.change(
        "DELETE FROM public.viewings WHERE id ="
        " (SELECT id FROM public.viewings WHERE id >= %s ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)",
        turn.id_from("viewings"),
    )


def hire_agent(turn: Turn) -> int:
    fresh = market.agent(turn.draw, 0, turn.at)._replace(joined_on=turn.at.date())
    return turn.insert("agents", fresh, numbered=True)


def rename_agent(turn: Turn) -> int:
    """Someone marries."""
    found = _agent(turn)
    if found is None:
        return 0
    agent_id, name, agency = found
    other = f"{name.split()[0]} {turn.draw.one(words.LAST_NAMES)}"
    return _set_agent(turn, agent_id, other, agency)


def change_employer(turn: Turn) -> int:
    found = _agent(turn)
    if found is None:
        return 0
    agent_id, name, agency = found
    other = turn.draw.one([option for option in words.AGENCIES if option != agency])
    return _set_agent(turn, agent_id, name, other)


def hand_over(turn: Turn) -> int:
    """Several listings of one agent go to another, in one transaction."""
    giver, taker = _agent(turn), _agent(turn)
    if giver is None or taker is None or giver[0] == taker[0]:
        return 0
    return turn.change(
        "UPDATE public.listings SET agent_id = %s, updated_at = %s WHERE id = ANY(ARRAY("
        "SELECT id FROM public.listings WHERE agent_id = %s ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED))",
        taker[0],
        turn.at,
        giver[0],
        turn.draw.between(1, HANDED_OVER_MAX),
    )


def retire_agent(turn: Turn) -> int:
    """An agent with few listings leaves, and a colleague takes them all over."""
    leaver, taker = _agent(turn), _agent(turn)
    if leaver is None or taker is None or leaver[0] == taker[0]:
        return 0
    listings = turn.one("SELECT count(*) FROM public.listings WHERE agent_id = %s", leaver[0])
    if listings is None or listings[0] > HANDED_OVER_MAX:
        return 0
    rows = turn.change(
        "UPDATE public.listings SET agent_id = %s, updated_at = %s WHERE agent_id = %s", taker[0], turn.at, leaver[0]
    )
    return rows + turn.change("DELETE FROM public.agents WHERE id = %s", leaver[0])


def _record_price(turn: Turn, listing_id: int, price: Decimal) -> int:
    return turn.insert("price_history", Price(0, listing_id, price, turn.at), numbered=True)


def _listing(turn: Turn, status: str) -> int | None:
    found = turn.one(
        "SELECT id FROM public.listings WHERE id >= %s AND status = %s::public.listing_status"
        " ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
        turn.id_from("listings"),
        status,
    )
    return found[0] if found else None


def _move_status(turn: Turn, source: str, target: str) -> int:
    listing_id = _listing(turn, source)
    return 0 if listing_id is None else _set_status(turn, listing_id, target)


def _set_status(turn: Turn, listing_id: int, status: str) -> int:
    return turn.change(
        "UPDATE public.listings SET status = %s::public.listing_status, updated_at = %s WHERE id = %s",
        status,
        turn.at,
        listing_id,
    )


def _agent(turn: Turn) -> tuple[int, str, str] | None:
    found = turn.one(
        "SELECT id, name, agency FROM public.agents WHERE id >= %s ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
        turn.id_from("agents"),
    )
    return (found[0], found[1], found[2]) if found else None


def _set_agent(turn: Turn, agent_id: int, name: str, agency: str) -> int:
    return turn.change(
        "UPDATE public.agents SET name = %s, agency = %s, email = %s WHERE id = %s",
        name,
        agency,
        market.email(name, agency),
        agent_id,
    )
