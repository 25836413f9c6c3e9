"""Replication events: what is in the bytes of an event group, GTIDs among it."""
