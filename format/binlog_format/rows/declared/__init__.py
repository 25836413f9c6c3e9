"""Declarations of columns in statements, for what the log does not record: types, layouts, defaults."""
