"""Row events: from row images to Arrow columns."""
