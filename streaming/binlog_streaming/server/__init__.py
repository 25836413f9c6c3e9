"""A live database server: its address, its password, and sessions on it."""
