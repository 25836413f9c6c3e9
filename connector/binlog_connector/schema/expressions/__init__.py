"""Expressions over the columns of a table: as statements write them, and computed for whole columns."""
