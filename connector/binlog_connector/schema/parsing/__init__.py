"""Statements as text: tokens, and the tables, columns, keys and rows that they define."""
