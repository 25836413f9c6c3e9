"""What the demo's processes tell each other: `WriterReport`, a line of JSON."""

from __future__ import annotations

import msgspec


class WriterReport(msgspec.Struct, frozen=True, kw_only=True):
    """How far the log is.

    Attributes:
        changes: Row changes committed so far, by `database.table`.
        last_gtid: Of the last group.
        is_done: Nothing more is written, and the truth is there.
    """

    changes: dict[str, int]
    last_gtid: str
    is_done: bool = False
