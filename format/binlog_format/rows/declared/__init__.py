"""What statements declare of columns, where the log does not record it: types, layouts, defaults."""
