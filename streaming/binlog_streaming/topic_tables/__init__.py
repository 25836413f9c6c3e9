"""Tables kept in step with topics, exactly once: start with `run.TopicTablesRun`."""
