"""Tables made anew from a place in the log."""
