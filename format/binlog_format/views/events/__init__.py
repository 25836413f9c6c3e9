"""The view `events`, and the texts of statements in events."""
