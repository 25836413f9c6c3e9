"""Event groups made from commit records, with their events or without."""
