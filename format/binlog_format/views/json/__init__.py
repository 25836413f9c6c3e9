"""Rows and row images as JSON texts."""
