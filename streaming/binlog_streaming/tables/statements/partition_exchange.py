"""Effect of EXCHANGE PARTITION on one of its two targets: `exchange_work(change, here, there)`.

The rows of a partition, and all rows of another table, change places. Two targets have no commit in common, so a job
may be killed between the two. Where only one side has rows, as when a partition is archived or loaded, the targets
show then what is left to do. Where both sides have rows, the targets do not show it: the statement is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from binlog_connector.schema.statement_rows import statement_error
from binlog_format.errors import BinlogError
from binlog_format.names import folded_name, folded_names
from binlog_streaming.lake.evolution import cast_to_schema, with_values
from binlog_streaming.lake.key_lookup import Search
from binlog_streaming.modes.mode_columns import IS_CURRENT, mode_schema
from binlog_streaming.settings import Mode
from binlog_streaming.tables.statements.row_retention import live_rows, living, new_row_values
from binlog_streaming.tables.statements.target_alteration import dropped_columns
from binlog_streaming.tables.statements.work import Work, held_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlog_connector.schema.partitions.rows import PartitionRows
    from binlog_connector.schema.table_changes import PartitionExchanged
    from binlog_format.errors import UnsupportedError
    from binlog_format.kernels import Mask
    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.target import Target
    from binlog_streaming.tables.statements.work import CommitAction, StatementContext

    Chosen = Callable[[pa.RecordBatch], pa.RecordBatch]
    """Those of some rows that go to the other side."""


def exchange_work(change: PartitionExchanged, here: ExchangeSide, there: ExchangeSide) -> Work | None:
    """Work on the target of *here*.

    Returns:
        None: nothing; or the other side goes first, and then this one is asked again.

    Raises:
        UnsupportedError: `ROWS_NOT_LOGGED`: both sides have rows; or it is not known which the partition has.
    """
    refusal = _Refusal(change, here.context)
    here.check_like(there, refusal)
    has_partition = here.context.table.name == change.table
    partition = (here if has_partition else there).partition(refusal)
    keys = held_keys(here.target.properties() or {})
    if has_partition:
        if there.is_done:
            return Work(here.context.removal_of(partition), keys)
        coming = there.count()
        if not coming:
            return None
        if here.count_in(partition):
            raise refusal.error("both have rows")
        if there.count_in(partition) != coming:
            raise refusal.error(f"rows of {change.other} belong to other partitions")
        return Work(here.append_from(there, lambda batch: batch), keys)
    if there.is_done:
        return Work(here.context.remove_all_rows, keys)
    if here.count() or not there.count_in(partition):
        return None
    return Work(here.append_from(there, lambda batch: batch.filter(partition.mask(batch))), keys)


class _Refusal(NamedTuple):
    change: PartitionExchanged
    context: StatementContext

    def error(self, why: str) -> UnsupportedError:
        moved = replace(self.change, reason=f"{self.change.reason}, and {why}")
        return statement_error(self.context.step.statement, moved.names, moved)


@dataclass(frozen=True, slots=True)
class ExchangeSide:
    """One of the two targets.

    Attributes:
        context: The statement, and the table.
        target: As it is.
        is_done: It has the rows that the exchange leaves to it.
    """

    context: StatementContext
    target: Target
    is_done: bool

    def check_like(self, other: ExchangeSide, refusal: _Refusal) -> None:
        """See that both targets have the same columns of a source table, as the server's tables have."""
        for side in (self, other):
            if side.target.properties() is None:
                raise refusal.error(f"{side.context.table.name} has no target yet")
        if self._fields() != other._fields():
            raise refusal.error("their targets have different columns")

    def partition(self, refusal: _Refusal) -> PartitionRows:
        """The rows of the partition, if this is the table that has it."""
        try:
            return self.context.partition_rows(refusal.change.partition_emptied)
        except BinlogError as error:
            raise refusal.error(error.reason) from error

    def count(self) -> int:
        """Count the rows that the source table has."""
        return sum(batch.num_rows for batch in self.rows())

    def count_in(self, partition: PartitionRows) -> int:
        """Count those of them that belong to a partition; only the columns that tell are read."""
        wanted = folded_names(partition.columns)
        columns = tuple(name for name in self.target.schema().names if folded_name(name) in wanted)
        current = IS_CURRENT if self.context.mode is Mode.SCD2 else None

        def matches(batch: pa.RecordBatch) -> Mask:
            mask: Mask = partition.mask(batch).to_numpy(zero_copy_only=False)
            return mask if current is None else mask & living(batch, Mode.SCD2).to_numpy(zero_copy_only=False)

        read = columns if current is None else (*columns, current)
        return len(self.target.select(Search(read, matches, current=current), columns))

    def rows(self) -> pa.RecordBatchReader:
        """Those that the source table has."""
        return live_rows(self.target, self.context.mode, self.context.table.rule.deletes)

    def append_from(self, source: ExchangeSide, chosen: Chosen) -> CommitAction:
        """Rows of the other side become new rows of this one."""

        def commit(target: Target, commit_id: CommitId) -> bool:
            schema = target.schema()
            statement = self.context.step.statement
            own = new_row_values(self.context.mode, statement.commit_time, statement.place, schema)
            # Opened here: within the write that takes the rows, a library may not begin to read.
            rows = source.rows()
            names = [field.name for field in source._fields()]

            def batches() -> Iterator[pa.RecordBatch]:
                for batch in rows:
                    yield with_values(cast_to_schema(chosen(batch).select(names), schema), own)

            target.append(pa.RecordBatchReader.from_batches(schema, batches()), commit_id)
            return True

        return commit

    def _fields(self) -> list[pa.Field]:
        gone = {*dropped_columns(self.target), *mode_schema(self.context.mode, pa.schema([])).names}
        return sorted((field for field in self.target.schema() if field.name not in gone), key=lambda field: field.name)
