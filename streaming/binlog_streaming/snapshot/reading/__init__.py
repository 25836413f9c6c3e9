"""First snapshots by reading: rows of a server as they are at one point of its log, written into targets."""
