"""The log, whatever its format: `log.Log`, searches, ranges."""
