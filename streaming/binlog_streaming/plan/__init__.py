"""What a batch does to which tables, and in which order."""
