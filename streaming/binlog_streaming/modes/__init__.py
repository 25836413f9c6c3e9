"""Results of a step's rows in a table, by mode."""
