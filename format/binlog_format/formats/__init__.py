"""Opening of a log, `opening.open_log`: which format, and which files: a directory, some of its files, an archive."""
