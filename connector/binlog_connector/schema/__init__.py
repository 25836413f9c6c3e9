"""What tables look like where the log does not say it: schema files, and DDL in the log (`history.SchemaHistory`)."""
