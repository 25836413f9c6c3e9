"""Random histories: what sessions do on a live server."""
