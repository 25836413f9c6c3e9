"""Facts about a server that no statement contains: comparison of names, effects of failed statements."""
