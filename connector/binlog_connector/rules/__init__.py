"""Which rows and columns of tables are shown, and which values are masked: start with `row_rules.TableRules`."""
