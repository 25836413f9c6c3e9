"""Effects of statements on target tables."""
