"""`binlog-stream prove` and what it prints."""
