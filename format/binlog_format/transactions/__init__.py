"""Committed transactions, made from event groups as they are stored."""
