"""Views kept on Spark: groups of views over the log, an epoch after the other, into their topics.

group.py       what is kept together: definitions, tables' shapes, and the nodes that follow from them
mail.py        deltas on their way between nodes, in bounded memory
worker.py      runs the nodes of a group: all in one task, or a level at a time in many
jobs.py        the same as Spark jobs
publisher.py   view topics and frontier, an epoch a Kafka transaction
"""
