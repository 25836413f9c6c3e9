"""What statements do to target tables."""
