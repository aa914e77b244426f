"""The embedded stack: every server Headwater needs, fetched once, run as child processes on loopback."""
