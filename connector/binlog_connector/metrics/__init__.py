"""Lag and speed of a consumer: computed in one place, exported for Prometheus."""
