"""Messages into Kafka, exactly once: start with `publisher.Publisher`."""
