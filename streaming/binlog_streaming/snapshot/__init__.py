"""First snapshots through the log: a server writes existing rows into its own binlog, chunk by chunk."""
