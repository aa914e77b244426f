"""The verbs of views, without their printing: what `plan`, `apply`, `views`, `explain`, `show` and `verify` do.

declared.py     files of SQL: the views in them, and what is refused
cost.py         what keeping a view costs, from its stages
plan_views.py   what is declared against what is applied
apply.py        writes down what is wanted, and waits until it is so
kept.py         looks at views that are kept: state, frontier, arrangements, rows
place.py        the deployment, the registry, the folder of SQL files
key_text.py     a key as people type it
compare.py      one look at a view beside its SQL in Postgres
verify.py       looks until every difference is settled
"""
