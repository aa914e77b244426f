"""Makes a base of saved searches, in a process of its own: what it takes is not taken from the lanes.

python -m alerts.making < a pickled Making or First (standing.py)
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import Final

from alerts.matcher.matcher import Matcher
from alerts.saved_row import fitting
from alerts.standing import First, Making

NICENESS: Final = 10


def make(making: Making) -> Matcher:
    old = Matcher.open(making.folder, making.definition) if making.has_base else Matcher(making.definition)
    for number, entry in making.changed.items():
        old.remove(number)
        if entry is not None:
            old.put(entry)
    return Matcher.build(making.folder, making.definition, old.entries(), making.seen, making.version)


def make_first(first: First) -> Matcher:
    entries = (entry for each in first.book.open(first.at) if (entry := fitting(*each, first.definition)))
    return Matcher.build(first.folder, first.definition, entries, version=str(first.at))


def main() -> None:
    os.nice(NICENESS)
    asked = pickle.load(sys.stdin.buffer)
    make_first(asked) if isinstance(asked, First) else make(asked)


if __name__ == "__main__":
    main()
