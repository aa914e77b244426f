"""The history of verification as JSON objects: the same over HTTP and with --json. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from headwater.views.verify_history import PlaceResult, VerifyRun, Wrong


def run_object(run: VerifyRun) -> dict[str, object]:
    return {
        "view": run.view,
        "at": at_text(run.began_at_us),
        "why": run.why.value,
        "by": run.by,
        "is_equal": run.is_equal,
        "runs": run.runs,
        "repaired": list(run.repaired),
        "places": [_place_object(each) for each in run.places],
        "took_s": round(run.took_s, 3),
    }


def wrong_objects(wrong: Wrong) -> list[dict[str, object]]:
    return [
        {"view": view, "place": place, "key": key, "kind": found.kind, "since": at_text(found.since_us)}
        for view, places in sorted(wrong.items())
        for place, keys in sorted(places.items())
        for key, found in sorted(keys.items())
    ]


def at_text(at_us: int) -> str:
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).isoformat().replace("+00:00", "Z")


def _place_object(found: PlaceResult) -> dict[str, object]:
    return {
        "place": found.place,
        "is_equal": found.is_equal,
        "rows": found.rows,
        "missing": found.missing,
        "extra": found.extra,
        "different": found.different,
        "unsettled": found.unsettled,
        "lsn": found.lsn,
        "generation": found.generation,
        "keys": list(found.keys),
        "note": found.note,
    }
