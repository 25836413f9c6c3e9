"""A model of the server's write path: makes `.ibb` logs, also live ones."""
