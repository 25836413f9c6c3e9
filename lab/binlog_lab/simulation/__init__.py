"""Logs made from operations: `binlog-stream simulate`."""
