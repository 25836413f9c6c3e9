"""Jobs: what they remember, what is asked of them beside running, and replays, which build tables again."""
