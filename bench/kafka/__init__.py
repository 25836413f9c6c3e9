"""A log into Kafka: messages, producers, and all of it."""
