"""Keeps definitions of tables in a job's checkpoint: `DefinitionKeeper`, of the files of `following.kept_definitions`.

The file is written before the offset that it is for, and has the state before that offset, too: whichever offset a job
goes on from, after a kill at any place, finds the definitions of its own place.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.following.kept_definitions import (
    OF_OTHER_LOG,
    KeptDefinitions,
    KeptState,
    goes_on,
    restored,
    state_of_history,
    with_definitions,
)
from binlog_connector.following.resume import compare
from binlog_connector.following.watched import WatchedLog
from binlog_connector.log_definitions import SchemaFile, forget_statements
from binlog_connector.rules.row_rules import TableRules
from binlog_connector.schema.catalog import Catalog
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.log_ddl import ddl_statements
from binlog_connector.schema.stated_definitions import stated_definitions
from binlog_format.views.filters import TableFilter
from binlog_streaming.job_state.checkpoint import state_of
from binlog_streaming.settings.model import GHOST_TABLES, KEPT_DEFINITIONS_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.schema.definitions import TableDefinition, TableName
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_format.block import Block
    from binlog_format.position import Position
    from binlog_format.rows.decoding import RowRules
    from binlog_streaming.settings.model import Job
    from binlog_streaming.settings.publish_model import PublishJob


class DefinitionKeeper:
    """Follows the definitions of a job's tables along its log; `take` after each part of it, before its offset is kept.

    Args:
        job: The settings; it keeps nothing where its checkpoint is not a folder.
    """

    def __init__(self, job: Job | PublishJob) -> None:
        self._job = job
        self._tables = TableFilter(
            ",".join([*(rule.select for rule in job.tables), GHOST_TABLES]), job.source.exclude_tables
        )
        self._history: SchemaHistory | None = None
        self._from_start: SchemaHistory | None = None
        self._known_from: Position | None = None
        self._states: tuple[KeptState, ...] = ()
        self._is_written = False  # `_states` or what came before it
        self._noted = 0  # statements since the newest state
        self._reached: tuple[str, int | None] = "", None  # identity and CRC at `_history.known_to`

    def observed(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """The same *blocks*, of plain events, of the part that is taken next; may be called again."""
        for block in blocks:
            if self._history is not None:
                self._note(ddl_statements(block))
                self._note(stated_definitions(block))
            yield block

    def observed_from_start(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """The same *blocks*, of plain events, from the start of the log on; `bring_to` does not read them again."""
        self._from_start = self._of_schema_file()
        return self._from_start.observed(blocks)

    def bring_to(self, watched: WatchedLog, position: Position) -> None:
        """Read all definitions before *position*, from the kept state and the log."""
        if self._job.kept_definitions is None:
            return
        history = self._history
        reached = None if history is None else history.known_to
        if history is None or reached is None or reached > position or not goes_on(watched, reached, *self._reached):
            self._history = history = self._begun(watched, position)
            reached = history.known_to or position
        if reached < position:
            # Statements that a version has left which kept no definitions; else none.
            history.scan_ddl(watched.log, max(reached, watched.log.start_position()), position)
            history.known_to = position
            self._noted += 1

    def take(self, watched: WatchedLog, statements: Iterable[DdlStatement], end: Position) -> None:
        """Keep what holds at *end*, to which all statements are known by `bring_to`, `observed` and *statements*."""
        history = self._history
        if self._job.kept_definitions is None or history is None:
            return
        self._note(statements)
        history.known_to, self._reached = end, (watched.files.identity(end.file_no), watched.consumed_crc(end))
        last = self._states[-1]
        is_near = last.position.file_no == end.file_no and last.identity == self._reached[0]
        if is_near and self._is_written and not self._noted:
            return
        self._noted = 0
        state = self._shown(state_of_history(history, watched, self._is_wanted, last))
        if not (is_near and self._is_written and state.states_same(last)):
            self._write((last, state))

    def take_from_server(self, watched: WatchedLog, definitions: Sequence[DdlStatement]) -> None:
        """Keep definitions that were read from the server, and that the log need not have.

        Args:
            definitions: Of `stated_definitions.definition_of_server`, all of one position.
        """
        self.bring_to(watched, definitions[0].position)
        if self._job.kept_definitions is None or self._history is None:
            return
        last = self._states[-1]
        state = with_definitions(state_of_history(self._history, watched, self._is_wanted, last), definitions)
        self._known_from = OF_OTHER_LOG
        self._write((last, self._shown(state)))
        self._history = None  # the file has more than it
        forget_statements(self._job.kept_definitions)

    @property
    def defined(self) -> frozenset[TableName] | None:
        """Tables of which statements or marks define all that no table map has; None: that is not followed."""
        if self._job.kept_definitions is None or not self._states:
            return None
        return frozenset(table.name for table in self._states[-1].tables if table.columns is not None)

    def forget(self) -> None:
        """Changes were lost: what was kept may not be true any more."""
        state_of(self._job).forget(KEPT_DEFINITIONS_FILE)
        self._history, self._states = None, ()

    def _note(self, statements: Iterable[DdlStatement]) -> None:
        assert self._history is not None
        self._noted += sum(map(self._history.note, statements))

    def _begun(self, watched: WatchedLog, position: Position) -> SchemaHistory:
        """The kept state for *position*, or else the definitions of the whole log before it."""
        log_start = watched.log.start_position()
        content = state_of(self._job).read(KEPT_DEFINITIONS_FILE)
        kept = None if content is None else KeptDefinitions.parse(content, str(self._job.kept_definitions))
        state = None if kept is None else kept.usable(watched, position)
        if kept is not None and state is not None:
            self._known_from, self._states, self._is_written = kept.known_from, (state,), True
            return restored(self._of_schema_file(), state, log_start)
        history, self._from_start = self._from_start or self._of_schema_file(), None
        reached = history.known_to or log_start
        if reached < position:
            history.scan_ddl(watched.log, reached, position)
        history.known_to = max(log_start, position)
        self._known_from, self._is_written = log_start, False
        self._states = (self._shown(state_of_history(history, watched, self._is_wanted, None)),)
        return history

    def _of_schema_file(self) -> SchemaHistory:
        path = self._job.source.schema_file
        base = Catalog() if path is None else SchemaFile.read(path).catalog
        return SchemaHistory(base, folds_names=self._job.source.folds_names)

    def _shown(self, state: KeptState) -> KeptState:
        """Remove values in statements, of tables of which a rule hides something."""
        return msgspec.structs.replace(
            state, tables=tuple(_without_values(table) if self._hides(table.name) else table for table in state.tables)
        )

    def _hides(self, name: TableName) -> bool:
        bound = self._rules.of(*name) if isinstance(self._rules, TableRules) else None
        return bound is not None and bound.rule.hides

    @cached_property
    def _rules(self) -> RowRules | None:
        return self._job.decoding().rules

    def _is_wanted(self, name: TableName) -> bool:
        return self._tables.accepts_name(*name)

    def _write(self, states: tuple[KeptState, KeptState]) -> None:
        assert self._known_from is not None, "nothing was read"
        content = KeptDefinitions(known_from=self._known_from, states=states)
        state_of(self._job).write(KEPT_DEFINITIONS_FILE, msgspec.json.encode(content))
        self._states, self._is_written = states, True


def _without_values(table: TableDefinition) -> TableDefinition:
    """A definition whose defaults, expressions and partitions are not known."""
    columns = table.columns and tuple(
        replace(column, default=None, expression=(), unknown=column.unknown | {"default", "expression"})
        for column in table.columns
    )
    return replace(table, columns=columns, partitioning=None, unknown=table.unknown | {"partitioning"})


def keep_batch(
    keeper: DefinitionKeeper,
    job: Job,
    statements: Iterable[DdlStatement],
    start: SourceOffset | None,
    end: SourceOffset,
) -> None:
    """Keep what holds after a batch of tables. *start*: where the batch begins; None: it is the job's first one."""
    source = job.source
    with WatchedLog(source.path, source.format) as watched:
        known_from = end.position
        # Statements of transactions that are left out are in no plan, and have altered tables all the same.
        if source.ignore_domain_ids is None and source.ignore_server_ids is None:
            if start is not None:
                known_from = compare(watched, start).offset.position
            elif source.starts_at_the_beginning:
                known_from = watched.log.start_position()  # all of the log is of this batch
        keeper.bring_to(watched, known_from)
        keeper.take(watched, statements, end.position)
