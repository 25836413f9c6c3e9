"""Jobs: tables kept in step with a log, the command line, the demo."""
