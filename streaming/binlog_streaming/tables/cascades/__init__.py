"""Rows that foreign keys change, and no log has: derived, and made in the targets."""
