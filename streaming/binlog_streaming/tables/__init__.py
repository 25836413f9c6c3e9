"""Delta tables kept in step with a log: `TablesJob` runs a job; `apply.apply_table` is one table's step in a batch."""
