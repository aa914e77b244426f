"""Benchmarks: one module a measurement, each with a part that talks to the servers and a part that only counts.

A bench has a module with `run` (capture.py) and a verb in headwater/cli/bench.py. What the figures mean is in
docs/benchmarks.md.
"""
