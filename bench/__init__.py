"""Benchmarks: `python -m bench [names]`."""
