"""Partitions of tables: what they are defined as, and which rows they have."""
