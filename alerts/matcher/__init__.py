"""Which subscriptions a view's deltas concern. Pure: no Spark, no Kafka, no database."""

from alerts.matcher.events import Change, Matches
from alerts.matcher.matcher import Matcher
from alerts.matcher.naive import Naive

__all__ = ["Change", "Matcher", "Matches", "Naive"]
