"""Jobs: what they remember, and what is asked of them beside running."""
