"""Delta tables kept in step with a log: `TablesJob` runs a job; `apply.apply_component` does the steps of a batch."""
