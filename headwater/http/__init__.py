"""Over HTTP: the live page, the status, health and metrics."""
