"""Results of a step's rows in a table, by mode, also of row images that lack columns."""
