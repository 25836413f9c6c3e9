"""Facts about names, from the statements before a part of a log: `scope_before(watched, start)`; one per process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.schema.log_ddl import all_statements
from binlog_connector.schema.server_runs import ServerRuns
from binlog_connector.schema.statement_scope import StatementScope
from binlog_format.transactions.expansion import expanded

if TYPE_CHECKING:
    from binlog_connector.following.watched import WatchedLog
    from binlog_format.position import Position


@dataclass(frozen=True, slots=True)
class _Known:
    position: Position
    identity: str  # of the file that `position` is in
    scope: dict[str, object]


_known: dict[tuple[str, str], _Known] = {}


def scope_before(watched: WatchedLog, start: Position) -> StatementScope:
    """Scope after all statements before *start*; continues where this process has stopped before.

    Raises:
        BinlogError: As `Log.blocks`.
    """
    log = watched.log
    key = log.path, log.format_name
    known = _known.get(key)
    if known is not None and known.position <= start and watched.has(known.position.file_no):
        is_same = watched.identity(known.position.file_no) == known.identity
    else:
        is_same = False
    scope = StatementScope.from_json(known.scope if known is not None and is_same else {})
    first = known.position if known is not None and is_same else log.start_position()
    if first < start:
        server_runs = ServerRuns(log)
        for block in expanded(log.blocks(first, start)):
            for _, _, statement in all_statements(block, server_runs):
                scope.observe(statement)
    _known[key] = _Known(start, watched.identity(start.file_no), scope.to_json())
    return scope
