"""The views of a log: batches of changes, change feeds, events, tables touched; and indexes of one table's events."""
