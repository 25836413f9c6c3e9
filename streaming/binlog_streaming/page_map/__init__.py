"""Pictures of a log's pages: `picture` describes them for all formats, `drawing` draws them."""
