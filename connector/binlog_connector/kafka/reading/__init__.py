"""Messages of topics, read: `topic_reader.TopicReader`."""
