"""Writes what sessions do into a live `.ibb` log, as a server would: `Recorder(writer).record(action)`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from binlog_lab.demo.actions import (
    ActionKind,
    BeginAction,
    CommitAction,
    Ddl,
    RollbackAction,
    RollbackToAction,
    SavepointAction,
    StatementAction,
)
from binlog_lab.event_encoding.event_encoding import (
    DDL_FLAGS,
    Origin,
    QueryContext,
    encode_annotate_rows,
    encode_gtid,
    encode_query,
    encode_xid,
)
from binlog_lab.event_encoding.table_encoding import TableEncoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlog_lab.demo.actions import Action
    from binlog_lab.event_encoding.table_encoding import TableSpec
    from binlog_lab.event_encoding.value_encoding import Value
    from binlog_lab.innodb_writer.server import BinlogWriter

    Row = tuple[Value, ...]

_FIRST_TABLE_ID = 18
_SQL = {
    ActionKind.INSERT: "INSERT INTO {} VALUES /* {} */",
    ActionKind.UPDATE: "UPDATE {} SET /* {} */",
    ActionKind.DELETE: "DELETE FROM {} WHERE /* {} */",
}


class Recorder:
    """A server's binlog side.

    Args:
        writer: The log.
        server_id: Of the server.
        clock: Seconds since 1970 UTC.
    """

    def __init__(self, writer: BinlogWriter, *, server_id: int, clock: Callable[[], float] = time.time) -> None:
        self._writer = writer
        self._server_id = server_id
        self._clock = clock
        self._encoders: dict[str, TableEncoder] = {}
        self._next_table_id = _FIRST_TABLE_ID
        self._next_xid = 1
        self.committed_at: dict[str, int] = {}
        """Commit time of each group, by GTID: seconds since 1970 UTC, as in the log."""

    def record(self, action: Action) -> None:
        """Do one step."""
        writer = self._writer
        if isinstance(action, StatementAction):
            writer.statement_start(action.session)
            for event in self._statement(action):
                writer.event(action.session, event)
        elif isinstance(action, BeginAction):
            writer.begin(action.session)
        elif isinstance(action, CommitAction):
            origin = self._origin()
            self.committed_at[str(action.gtid)] = origin.timestamp
            writer.event(action.session, encode_xid(self._take_xid(), origin))
            writer.commit(action.session, action.gtid, encode_gtid(action.gtid, origin.timestamp))
        elif isinstance(action, RollbackAction):
            writer.rollback(action.session)
        elif isinstance(action, SavepointAction):
            writer.savepoint(action.session, action.number)
        elif isinstance(action, RollbackToAction):
            writer.rollback_to(action.session, action.number)
        else:
            self._ddl(action)

    def _statement(self, action: StatementAction) -> Iterator[bytes]:
        origin = self._origin()
        encoder = self._encoder(action.spec)
        rows = f"{len(action.changes):,} row{'s' if len(action.changes) > 1 else ''}"
        yield encode_annotate_rows(
            _SQL[action.kind].format(f"`{action.spec.database}`.`{action.spec.table}`", rows), origin
        )
        yield encoder.table_map(origin)
        if action.kind is ActionKind.INSERT:
            yield from encoder.insert((_there(after) for _, after in action.changes), origin)
        elif action.kind is ActionKind.DELETE:
            yield from encoder.delete((_there(before) for before, _ in action.changes), origin)
        else:
            yield from encoder.update(((_there(before), _there(after)) for before, after in action.changes), origin)

    def _ddl(self, action: Ddl) -> None:
        origin = self._origin()
        query = encode_query(action.sql, origin, QueryContext(xid=self._take_xid()))
        gtid_event = encode_gtid(action.gtid, origin.timestamp, flags=DDL_FLAGS)
        self._writer.write_group(action.gtid, gtid_event, [query])

    def _encoder(self, spec: TableSpec) -> TableEncoder:
        encoder = self._encoders.get(spec.full_name)
        if encoder is None or encoder.spec is not spec:
            # As the server: a table that was altered gets a new id.
            encoder = TableEncoder(spec, self._next_table_id)
            self._next_table_id += 1
            self._encoders[spec.full_name] = encoder
        return encoder

    def _origin(self) -> Origin:
        return Origin(int(self._clock()), self._server_id)

    def _take_xid(self) -> int:
        self._next_xid += 1
        return self._next_xid


def _there(row: Row | None) -> Row:
    assert row is not None
    return row
