"""Events of one source as typed Arrow columns: `SourceDecoder`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_format.rows.arrow_arrays import struct_array
from binlog_format.structured.arguments.arrow_columns import column_array
from binlog_format.structured.arguments.columns import argument_plan, field_of
from binlog_format.structured.arguments.field_names import argument_names
from binlog_format.structured.arguments.json_texts import json_types
from binlog_format.structured.arguments.places import find_values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from binlog_format.structured.block import LogBlock
    from binlog_format.structured.metadata import EventSource

    Int64s = NDArray[np.int64]


class SourceDecoder:
    """Reads the arguments of a source's events into an Arrow struct with a field for each argument.

    Arguments that have one possible value, and so no bytes, have no field.

    Args:
        source: Decides the names and types of the fields; events of any source with the same argument tags can be read.
    """

    def __init__(self, source: EventSource) -> None:
        self._types = json_types((source.argument_tags,))
        self._plan = argument_plan(source.argument_tags)
        names = argument_names(source.format, len(self._plan.columns))
        named = [(name, column) for name, column in zip(names, self._plan.columns, strict=True) if column is not None]
        self._columns = [column for _, column in named]
        self.type: pa.StructType = pa.struct([field_of(name, column) for name, column in named])

    @property
    def schema(self) -> pa.Schema:
        """The fields of `type`."""
        return pa.schema(list(self.type))

    def decode(self, block: LogBlock, rows: Int64s, *, skip_damaged: bool = False) -> pa.StructArray:
        """The arguments of events.

        Args:
            block: With the events.
            rows: Which of `block.events`; all of sources with the argument tags of this one.
            skip_damaged: Null for events whose arguments cannot be read, instead of an error.

        Raises:
            CorruptError: `BAD_ENTRY`: arguments that cannot be read.
            UnsupportedError: `EVENT_TYPE`: the block, or all JSON in a column, is more than 2 GiB.
        """
        found = find_values(self._plan, self._types, block, rows, skip_damaged=skip_damaged)
        arrays = [column_array(column, found) for column in self._columns]
        if arrays:
            return struct_array(self.type, arrays, found.valid)
        return pa.array([{} if is_valid else None for is_valid in found.valid.tolist()], self.type)
