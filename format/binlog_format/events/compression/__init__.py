"""Compressed events and transactions, and what is in them, in their place."""
