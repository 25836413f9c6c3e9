"""The part of the simulator for snapshots: what the command writes into a log, and lives of jobs that take it."""
