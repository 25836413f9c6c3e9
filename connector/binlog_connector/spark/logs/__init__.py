"""Structured logs in Spark: view `logs`."""
