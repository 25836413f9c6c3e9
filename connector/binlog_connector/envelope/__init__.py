"""Changes as messages, keys and values as bytes: Debezium's envelope or flat rows, for Kafka and for anybody else."""
