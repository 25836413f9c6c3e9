"""Filters that Spark hands to batch queries: start with `wanted.wanted_by`."""
