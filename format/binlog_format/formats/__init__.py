"""The formats: `opening.open_log` opens a log, `detect` tells the formats apart, each has its check."""
