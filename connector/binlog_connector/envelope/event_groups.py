"""Names of the event groups of some events: `EventGroups`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.rows.arrow_arrays import numbers_array, strings_array
from binlog_format.views.columns import PlaceColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.block import Block

    Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EventGroups:
    """The groups of some events, for messages.

    Attributes:
        block: Of the events.
        events: Rows of its event table.
    """

    block: Block
    events: Int64s

    @property
    def rows(self) -> Int64s:
        """Row of each event's group."""
        rows: Int64s = self.block.events["group"][self.events]
        return rows

    def gtids(self) -> pa.Array:
        """GTID of each group as text; null without."""
        return PlaceColumns(self.block.events, self.block.groups, self.events, self.block.gtid_sources).gtid()

    def file_names(self) -> pa.Array:
        """Name of the file that each group is in."""
        file_nos, codes = np.unique(self.block.groups["file_no"][self.rows], return_inverse=True)
        names = [self.block.path_of(int(number)).rsplit("/", 1)[-1] for number in file_nos]
        return strings_array(names).take(numbers_array(codes.astype(np.int64)))

    def file_offsets(self) -> Int64s:
        """Byte in its file where each group starts."""
        offsets: Int64s = self.block.groups["file_offset"][self.rows]
        return offsets

    def transaction_ids(self) -> pa.Array:
        """The GTID of each group, or else its file and place in it, as Debezium has it."""
        places = numbers_array(self.file_offsets()).cast(pa.string())
        unnamed = pc.binary_join_element_wise("file=", self.file_names(), ",pos=", places, "")
        return pc.coalesce(self.gtids(), unnamed)
