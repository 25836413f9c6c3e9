"""Places of one table's events in a log, and the way back from there to its events."""
