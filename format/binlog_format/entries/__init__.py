"""Logs whose entries are no transactions: `entry_log.EntryLog`."""
