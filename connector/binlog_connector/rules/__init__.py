"""Selection of rows and columns of tables, and masks of values: start with `row_rules.TableRules`."""
