"""Jobs: what they remember, what is asked of them beside running, and replays: tables made anew."""
