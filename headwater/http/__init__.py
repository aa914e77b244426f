"""Over HTTP: the pages, the status, health and metrics."""
