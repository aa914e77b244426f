"""Capture: from a commit in Postgres to one ordered, transactional change log in Kafka, and back out of it."""
