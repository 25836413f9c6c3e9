"""What proves that tables are those of their source."""
