"""Proof that a job's tables equal those of their server at a GTID, and repair of what differs."""
