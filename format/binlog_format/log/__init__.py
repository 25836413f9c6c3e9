"""What every log can do, whatever its format: `log.Log`, searches, ranges."""
