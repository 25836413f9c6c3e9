"""Archiving: a server's binlog files are stored before it purges them, for every reader to read them from there."""
