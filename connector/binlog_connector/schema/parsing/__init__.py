"""Statements as text: tokens, and what they say of tables, columns, keys and rows."""
