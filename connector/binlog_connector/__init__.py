"""A live log as batches with positions: the Spark source and the tailer."""
