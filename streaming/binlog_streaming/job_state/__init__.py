"""What a job keeps between its runs: offsets, records of tables and of batches, definitions."""
