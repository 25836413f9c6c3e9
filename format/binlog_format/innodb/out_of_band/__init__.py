"""Data of large groups, which lies outside of their commit records: trees of records."""
