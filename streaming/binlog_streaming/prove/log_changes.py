"""Effects of a part of the log on the rows of one table: `LogChanges(job).after(start, end, table)`.

Between the place at which the server's rows were read and the end of what the target has, changes lie in the log. Each
puts an image of a row in the place of another one, so sums of hashes are brought from one place to the other by adding
what comes and subtracting what goes.
"""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from binlog_connector.log_definitions import SchemaFile
from binlog_connector.metrics.lag import LagMeter
from binlog_connector.options.query_views import make_decoding, make_view, open_watched, schemas_for
from binlog_connector.options.source_options import SourceOptions
from binlog_connector.schema.snapshot_marks import TableProved
from binlog_format.errors import BinlogError
from binlog_format.log.search import end_of_gtids
from binlog_format.names import folded_name
from binlog_format.position import Position
from binlog_format.rows.images import ImageKind
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.lake.row_values import one_array
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.modes.layout_cast import cast_layouts
from binlog_streaming.modes.row_batches import StepImages
from binlog_streaming.plan.batch_plan import ChangeStep, RowsStep
from binlog_streaming.plan.cascades import CascadeLog
from binlog_streaming.plan.job_state import TableSelection
from binlog_streaming.plan.plan import plan_batch
from binlog_streaming.settings.choices import OnError
from binlog_streaming.snapshot.locked_point import LogPoint
from binlog_streaming.tables.step_rows import agreed_types, part_row_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from binlog_connector.following.watched import WatchedLog
    from binlog_connector.schema.definitions import TableName
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.modes.row_batches import RowBatch
    from binlog_streaming.plan.batch_plan import BatchPlan, Component
    from binlog_streaming.plan.job_state import SelectedTable
    from binlog_streaming.plan.planning import Row
    from binlog_streaming.settings.model import Job
    from binlog_streaming.tables.step_rows import Types

    LogPlace = GtidPoint | Position

PATIENCE_SECONDS = 60.0
"""Seconds to wait for a log that is copied from the server's machine."""
_POLL_SECONDS = 0.05
_COMING = (ImageKind.INSERT, ImageKind.UPDATE_AFTER)


TRIES = 5
"""Number of attempts with a table about which the log has statements again and again."""


class DisturbedError(Exception):
    """The log has other changes of the table than of rows between two places; the text names them."""


class TableImages:
    """Images of one table's rows. *signs*: of each 1 where its row comes, -1 where it goes."""

    def __init__(self, schema: pa.Schema, images: StepImages) -> None:
        self._schema = schema
        self._images = images
        self._places = {folded_name(name): index for index, name in enumerate(schema.names)}
        self.signs = np.where(np.isin(images.kinds, _COMING), 1, -1).astype(np.int64)

    def column(self, name: str) -> pa.Array:
        """Values of a column; the case of its name does not matter."""
        place = self._places.get(folded_name(name))
        if place is None:
            raise DisturbedError(f"rows in the log have no column {name}")
        return one_array(self._images.values(place, self._schema.field(place).type))


class LogChanges:
    """Reads the log of a job as the job does."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._options = SourceOptions.parse({"path": job.source.path, **job.source_options()})

    def end_of(self, point: LogPoint | GtidPoint) -> Position | None:
        """Position of a point in the log; None: it does not have all that is before it yet."""
        with open_watched(self._options) as watched:
            if isinstance(point, LogPoint):
                position = watched.log.position_at_byte(point.name, point.byte)
                return None if position is None or position > watched.log.end_position() else position
            end = end_of_gtids(watched.log, point)
            return None if end.missing else end.position

    def wait_for(self, point: LogPoint | GtidPoint) -> Position:
        """Wait until the log has all before *point*, and return its position: it may be copied from the server."""
        end = time.monotonic() + PATIENCE_SECONDS
        while (position := self.end_of(point)) is None:
            if time.monotonic() > end:
                raise DisturbedError(f"the log has not come to {point} within {PATIENCE_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)
        return position

    def end(self) -> Position:
        """End of the log."""
        with open_watched(self._options) as watched:
            return watched.log.end_position()

    def place(self, position: Position) -> str:
        """A position as the server names it, for a log without GTIDs."""
        with open_watched(self._options) as watched:
            return watched.log.server_position(position) or str(position)

    def distance(self, one: Position, other: Position) -> int:
        """Bytes of the log between two positions."""
        with contextlib.closing(LagMeter(self._options.path, self._options.format)) as meter:
            return meter.size_between(*sorted((one, other)))

    def after(self, start: LogPlace, end: LogPlace, table: TableName) -> TableImages | None:
        """The images of a table's rows in groups that *end* covers, and *start* does not; None: there are none.

        Args:
            start: GTIDs, or a position.

        Raises:
            DisturbedError: Images alone do not tell what becomes of the table.
        """
        with open_watched(self._options) as watched:
            plan = self._plan(list(self._rows(watched, start, end)))
            component = next((planned for planned in plan.components if table in planned.tables), None)
            row_batches = [] if component is None else self._row_batches(component, table, watched)
        if not row_batches:
            return None
        schema, row_batches = cast_layouts(str(table), row_batches, self._job.decoding())
        images = StepImages(str(table), tuple(row_batches))
        if images.has_absent:
            raise DisturbedError("row images in the log lack columns (binlog_row_image)")
        return TableImages(schema, images)

    def _rows(self, watched: WatchedLog, start: LogPlace, end: LogPlace) -> Iterator[Row]:
        skip = until = None
        if isinstance(start, Position) or isinstance(end, Position):
            assert isinstance(start, Position), "both are"
            assert isinstance(end, Position), "both are"
            first, last = start, end
        elif end.without(start):
            begin, finish = watched.log.position_of(start), end_of_gtids(watched.log, end)
            first, skip, last, until = begin.position, begin.taken, finish.position, finish.taken
        else:
            return
        if first >= last:
            return
        path = self._job.source.schema_file
        schemas = schemas_for(self._options, watched, first, SchemaFile.read(path) if path else None)
        assert schemas is not None
        view = make_view(self._options, skip=skip, until=until, decoding=make_decoding(self._options, schemas))
        for batch in view.batches(schemas.observed(watched.log.committed_blocks(first, last))):
            yield from batch.to_pylist()

    def _plan(self, rows: list[Row]) -> BatchPlan:
        keeper = RecordKeeper(self._job)
        keeper.changes()
        selection = TableSelection.of(self._job)
        log = CascadeLog(self._job)
        try:
            return plan_batch(
                rows,
                self._job.decoding(),
                selection,
                keeper.peek(),
                on_error=OnError.SET_ASIDE,
                fail_on_data_loss=True,
                log=log,
            )
        except BinlogError as error:
            raise DisturbedError(str(error)) from error

    def _types(self, table: SelectedTable) -> Types:
        sink = self._job.sink
        with contextlib.ExitStack() as stack:
            targets = [
                stack.enter_context(
                    contextlib.closing(sink_type(sink.format).at(sink, table.uri(sink.directory, mode)))
                )
                for mode in table.rule.modes
            ]
            return agreed_types(target.properties() for target in targets)

    def _row_batches(self, component: Component, table: TableName, watched: WatchedLog) -> list[RowBatch]:
        if component.tables[table].set_aside is not None:
            raise DisturbedError("the table cannot go on")
        found: list[RowBatch] = []
        decoding, types = self._job.decoding(), partial(self._types, component.tables[table])
        for step in component.steps:
            if isinstance(step, RowsStep):
                if step.table != table:
                    continue
                for part in step.parts:
                    if part.snapshot:
                        raise DisturbedError("a snapshot of the table brings rows")
                    cut = (
                        row_batch.between(step.after, step.before)
                        for row_batch in part_row_batches(part, watched.log, decoding, types)
                    )
                    found += [row_batch for row_batch in cut if row_batch is not None]
            elif isinstance(step, ChangeStep):
                if table in step.tables and not isinstance(step.change, TableProved):
                    raise DisturbedError(f"the table was changed at {step.statement.position}")
            else:
                raise DisturbedError("foreign keys change rows without a word in the log")
        return sorted(found, key=lambda row_batch: row_batch.start())
