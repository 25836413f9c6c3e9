"""Plan of a batch: its steps, their tables, and their order."""
