"""Compressed events and transactions, and what stands in them, in their place."""
