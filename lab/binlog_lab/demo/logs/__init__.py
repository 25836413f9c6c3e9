"""The demo of structured logs: `load` writes a live one, `comparison` finds each event that a table lacks."""
