"""State of a job: its own record, facts from its log, and a verdict in one sentence."""
