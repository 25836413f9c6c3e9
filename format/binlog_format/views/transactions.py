"""View `transactions`: one row for each event group: `TransactionsView`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.events.layout import EventType
from binlog_format.rows.images import ImageKind, read_images
from binlog_format.rows.json.json_rows import JsonStyle
from binlog_format.rows.table_events import TableMaps
from binlog_format.views.columns import COMMIT_TIME_TYPE, POSITION_TYPE, gtid_texts, position_array
from binlog_format.views.events import text_places, texts_at
from binlog_format.views.filters import ALL_GROUPS, GroupFilter, TableFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout
    from binlog_format.kernels import Int64s, Mask

TRANSACTIONS_SCHEMA = pa.schema(
    [
        ("position", POSITION_TYPE),
        ("gtid", pa.string()),
        ("commit_time", COMMIT_TIME_TYPE),
        ("server_id", pa.int64()),  # on which it was committed first
        ("events", pa.int64()),
        ("inserts", pa.int64()),
        ("updates", pa.int64()),
        ("deletes", pa.int64()),
        ("statements", pa.int64()),  # QUERY events: DDL and what is not logged as rows
        ("bytes", pa.int64()),  # of the plain events, checksums not counted
        ("oob_records", pa.int64()),  # out-of-band records that it was read from (`innodb`)
        ("tables", pa.list_(pa.string())),  # `database.table` of all that have rows in it, in order of appearance
    ]
)

_FRAME = ("BEGIN", "COMMIT", "ROLLBACK")
_KINDS = (ImageKind.INSERT, ImageKind.UPDATE_BEFORE, ImageKind.DELETE)


@dataclass(slots=True)
class _Counts:
    # Of each group of a block; the first one may have begun in an earlier block.
    events: Int64s
    rows: Int64s  # shape (3, group count), by `_KINDS`
    statements: Int64s
    size: Int64s
    tables: list[dict[str, None]]

    def carry_into(self, later: _Counts) -> None:
        """Add the last group's counts to the first group of *later*, which is the same one."""
        later.events[0] += self.events[-1]
        later.rows[:, 0] += self.rows[:, -1]
        later.statements[0] += self.statements[-1]
        later.size[0] += self.size[-1]
        later.tables[0] = self.tables[-1] | later.tables[0]


class TransactionsView:
    """The event groups of a log in commit order, as soon as all of a group has been seen.

    Args:
        tables: Only transactions with rows of these tables, and only those rows count; None: all.
    """

    def __init__(self, *, tables: TableFilter | None = None, groups: GroupFilter = ALL_GROUPS) -> None:
        self._tables = tables
        self._rows_of = tables or TableFilter()
        self._groups = groups

    def schema(self, layout: TableLayout | None = None) -> pa.Schema:
        """Schema of the batches; it is the same for every table."""
        del layout
        return TRANSACTIONS_SCHEMA

    def json_styles(self) -> dict[str, JsonStyle]:
        """JSON styles for `json_lines` of this view."""
        return {"commit_time": JsonStyle(digits=0)}

    def batches(self, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        """One batch for each of *blocks* (`Log.committed_blocks`) in which a wanted group ends."""
        maps = TableMaps()
        before: _Counts | None = None
        for block in blocks:
            if len(block.groups) == 0:
                continue
            counts = self._count(block, maps)
            if before is not None and not block.groups["begins"][0]:
                before.carry_into(counts)
            before = counts
            wanted = block.groups["ends"].copy()
            keep = self._groups.keep(block)
            if keep is not None:
                wanted &= keep
            if self._tables is not None:
                wanted &= np.array([bool(names) for names in counts.tables], dtype=np.bool_)
            if wanted.any():
                yield _batch(block, counts, np.flatnonzero(wanted))

    def _count(self, block: Block, maps: TableMaps) -> _Counts:
        groups, events = block.groups, block.events
        rows = np.zeros((len(_KINDS), len(groups)), dtype=np.int64)
        tables: list[dict[str, None]] = [{} for _ in range(len(groups))]
        first_rows: list[tuple[int, str]] = []  # row of a table's first event in a group
        for of_table in maps.resolve(block):
            layout = of_table.layout
            if not self._rows_of.accepts(layout):
                continue
            images = read_images(block.data, events, of_table.events, layout, place=block.place).table
            group = events["group"][images["event"]]
            for number, kind in enumerate(_KINDS):
                rows[number] += np.bincount(group[images["kind"] == kind], minlength=len(groups))
            _, first = np.unique(events["group"][of_table.events], return_index=True)
            first_rows += [(row, layout.full_name) for row in of_table.events[first].tolist()]
        for row, name in sorted(first_rows):
            tables[int(events["group"][row])][name] = None
        queries = events["group"][_is_statement(block)]
        return _Counts(
            events=groups["event_count"].astype(np.int64),
            rows=rows,
            statements=np.bincount(queries, minlength=len(groups)),
            size=groups["size"].astype(np.int64),
            tables=tables,
        )


def _is_statement(block: Block) -> Mask:
    """QUERY events but for those that begin or end their group: MySQL's BEGIN, and COMMIT of tables of MyISAM."""
    queries: Mask = block.events["type"] == EventType.QUERY
    rows = np.flatnonzero(queries)
    texts = texts_at(block.data, text_places(block)[2][:, rows])
    queries[rows] = ~np.isin(texts.to_numpy(zero_copy_only=False).astype(str), _FRAME)
    return queries


def _batch(block: Block, counts: _Counts, chosen: Int64s) -> pa.RecordBatch:
    groups = block.groups[chosen]
    oob_records = groups["oob_records"] + groups["oob_records_second_set"]
    return pa.RecordBatch.from_arrays(
        [
            position_array(block.groups, chosen),
            gtid_texts(groups, block.gtid_sources),
            pa.array(groups["timestamp"].astype(np.int64) * 1_000_000).view(COMMIT_TIME_TYPE),
            pa.array(groups["server_id"].astype(np.int64)),
            pa.array(counts.events[chosen]),
            *(pa.array(counts.rows[number][chosen]) for number in range(len(_KINDS))),
            pa.array(counts.statements[chosen]),
            pa.array(counts.size[chosen]),
            pa.array(oob_records.astype(np.int64)),
            pa.array([list(counts.tables[number]) for number in chosen.tolist()], pa.list_(pa.string())),
        ],
        schema=TRANSACTIONS_SCHEMA,
    )
