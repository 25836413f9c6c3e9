"""Definitions of tables for a part of a log: from schema files, from statements before it, from what a job keeps."""
