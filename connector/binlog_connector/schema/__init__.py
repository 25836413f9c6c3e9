"""Table definitions that the log does not contain: schema files, and DDL in the log (`history.SchemaHistory`)."""
