"""The views of a log: batches of changes, change feeds, tables touched."""
