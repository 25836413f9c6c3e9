"""A server's log as an `.ibb` log."""
