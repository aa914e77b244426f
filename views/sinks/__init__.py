"""Where views are written to. `sink.py` is the contract; a sink is one file and one line where the product wires it."""

from views.sinks.sink import Change, Mark, Refused, Sink, SinkKind, ViewShape

__all__ = ["Change", "Mark", "Refused", "Sink", "SinkKind", "ViewShape"]
