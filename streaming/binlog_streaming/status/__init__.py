"""How a job is: what it records of itself, what its log shows beside that, and both in one sentence."""
