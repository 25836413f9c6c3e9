"""Tables in step with a log, also by foreign keys: `TablesJob`; `apply.apply_component` does the steps of a batch."""
