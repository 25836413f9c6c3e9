"""Options of a query: what a user may write, read and checked once, and the views that options ask for."""
