"""`binlog-stream bread`: prints structured logs as the library's own reader of that name does, and more."""
