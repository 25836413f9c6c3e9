"""Event groups made from commit records, with their events or without; data of large ones is in trees of records."""
