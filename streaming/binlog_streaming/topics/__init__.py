"""Topics of Kafka, kept in step with a log exactly once: start with `job.TopicsJob`."""
