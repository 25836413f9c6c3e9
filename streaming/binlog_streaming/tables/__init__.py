"""Tables kept in step with a log, by foreign keys, too: `TablesJob`; `apply.apply_component` does the steps of a batch."""
