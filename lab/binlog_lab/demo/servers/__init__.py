"""Servers that the demo and the tests start on this machine: an S3 server, an Iceberg REST catalog."""
