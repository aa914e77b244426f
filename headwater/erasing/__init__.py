"""Erasing a person's data from everything that was derived from the source: `headwater erase`, docs/operations.md.

person.py    who: the keys of their rows, and values that only they have
finding.py   the same, from the source and the log
receipt.py   what was found where, what was erased, what is gone by when
erase.py     the order of it; letting_go.py   the change log's topic cut off behind them, for who cannot wait
log_places.py, view_places.py, alert_places.py   every place that may hold something
"""
