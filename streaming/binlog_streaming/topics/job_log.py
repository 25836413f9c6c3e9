"""Check that a log can be published: `require_changes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.errors import UnsupportedError
from binlog_format.position import Place

if TYPE_CHECKING:
    from binlog_format.log.log import Log


def require_changes(log: Log) -> None:
    """See that *log* has what is published: changes of tables.

    Raises:
        UnsupportedError: `FORMAT`.
    """
    if not log.traits.has_changes:
        raise UnsupportedError(
            "FORMAT",
            f"this is a {log.format_name} log: it has events of a program, and changes of tables are published alone",
            at=Place(log.path),
            hint="Keep its events in tables (binlog-stream init --for tables, then run), or send them to Kafka with "
            'Spark: docs/structured-tables.md, "Into Kafka"',
        )
