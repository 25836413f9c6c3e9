"""Effects of ALTER TABLE on the values of existing rows, for which there are no row events."""
