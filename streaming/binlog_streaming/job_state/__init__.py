"""State of a job between its runs: offsets, records of tables and of batches, definitions."""
