"""Make replication events, as servers do: for writers of logs and for tests."""
