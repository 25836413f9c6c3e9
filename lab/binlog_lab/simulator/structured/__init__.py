"""The part of the simulator for structured logs: a program that logs, its files, and lives of a job of its events."""
