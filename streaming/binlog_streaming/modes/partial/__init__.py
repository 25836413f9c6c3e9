"""Row images that lack columns: what a row holds there."""
