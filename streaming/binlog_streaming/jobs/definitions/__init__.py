"""Definitions of tables that a job keeps, and what columns become by them."""
