"""Where one table's events lie in a log, and the way back from there to its events."""
