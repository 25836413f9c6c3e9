"""Search for common mistakes: on the machine, in the log, in a job and on its server."""
