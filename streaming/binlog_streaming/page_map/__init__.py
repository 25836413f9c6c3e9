"""Pictures of a log's pages: one description for all formats (`picture`), what fills it, and what draws it."""
