"""Search: one query language and one text analysis over a view, kept as an Elasticsearch index.

row as JSON ─▶ documents ─▶ sink ─▶ Elasticsearch ◀─ compile ◀─ query ◀─ text or JSON of a person
                                                  evaluate ◀─┘   the same meaning, in Python, on one row
"""
