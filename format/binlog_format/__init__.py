"""Binary logs as tables: `open_log(path)` reads them, without Spark and without a server."""
