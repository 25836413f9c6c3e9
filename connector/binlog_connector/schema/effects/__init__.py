"""What ALTER TABLE does to the values of existing rows, for which there are no row events."""
