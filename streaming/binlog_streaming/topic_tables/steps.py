"""The steps of a batch, for `reached` and `watched` of `binlog_connector.crash_points`."""

from __future__ import annotations

from enum import StrEnum


class BatchStep(StrEnum):
    """What a job has just done; between any two of them, and within a write of a table, a process may end."""

    BEGUN = "begun"
    """The batch is in the checkpoint, and nothing of it in a table."""
    IN_TABLES = "in tables"
    """All of it is in the tables, and the checkpoint does not know."""
    FINISHED = "finished"
    """The checkpoint knows."""
