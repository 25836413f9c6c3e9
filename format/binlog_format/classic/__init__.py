"""The classic v4 binlog: files of events, one after the other."""
