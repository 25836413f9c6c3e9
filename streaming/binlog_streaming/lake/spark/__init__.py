"""Tables written by Spark's own writers."""
