"""What people get wrong, looked for: on the machine, in the log, in a job and on its server."""
