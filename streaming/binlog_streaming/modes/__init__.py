"""What the rows of a step leave in a table, by mode."""
