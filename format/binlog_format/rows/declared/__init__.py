"""What statements declare of columns, where the log does not say it: types, layouts, defaults."""
