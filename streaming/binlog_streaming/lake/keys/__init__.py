"""Rows found by key: what may hold one, what does, and which files need not be looked into."""
