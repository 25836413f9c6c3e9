"""Tables of the events of a structured log, exactly once: start with `run.EventTablesRun`."""
