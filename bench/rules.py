"""What rules cost: values of a column masked, and rows chosen, on one core: `rules.*`.

Counted is processor time beyond reading the same images without rules, for values of which each is another one.
"""

from __future__ import annotations

import functools
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.registry import benchmark
from binlog_connector.rules.row_rule import RowRule
from binlog_connector.rules.row_rules import TableRules
from binlog_connector.rules.rules_on_tables import BoundRule
from binlog_format import open_log
from binlog_format.gtids.gtid import Gtid
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.rows.images import read_images
from binlog_format.views.filters import ALL_GROUPS, TableFilter
from binlog_format.views.selection import Selection
from binlog_lab.event_encoding.event_encoding import Origin, encode_gtid, encode_xid
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter

if TYPE_CHECKING:
    from binlog_format.block import Block
    from binlog_lab.event_encoding.value_encoding import Value

ROWS = 200_000
ROWS_A_GROUP = 1000
RUNS = 5
"""After a first one that loads the kernels; of each block the least processor time counts, whatever else runs."""

_SECOND = 1_790_000_000
_COLUMNS = (ColumnSpec("id", "int"), ColumnSpec("country", "varchar(2)"), ColumnSpec("email", "varchar(60)"))


@benchmark("rules.null.values_per_s", unit="values/s")
def null() -> float:
    """Values that become NULL."""
    return _values_per_s(RowRule(mask={"email": "null"}))


@benchmark("rules.last.values_per_s", unit="values/s")
def last() -> float:
    """Values of which the last four characters are shown."""
    return _values_per_s(RowRule(mask={"email": "last 4"}))


@benchmark("rules.sha256.values_per_s", unit="values/s")
def sha256() -> float:
    """Values that become their SHA-256."""
    return _values_per_s(RowRule(mask={"email": "sha256"}, salt_variable="SALT"))


@benchmark("rules.where.rows_per_s", unit="rows/s")
def where() -> float:
    """Rows of which every other one is chosen, by two columns."""
    return _values_per_s(RowRule(where="country = 'DE' AND email IS NOT NULL"))


def _values_per_s(rule: RowRule) -> float:
    rules = Decoding(rules=TableRules([BoundRule(rule, salt=b"the salt of this run")]))
    return ROWS / (_seconds(rules) - _seconds(DEFAULT_DECODING))


def _seconds(decoding: Decoding) -> float:
    selection, taken = Selection(TableFilter(), ALL_GROUPS, decoding=decoding), 0.0
    for block in _blocks():
        least = float("inf")
        for _ in range(RUNS + 1):
            started = time.process_time()
            for touched in selection.of(block):
                read_images(block.data, block.events, touched.events, touched.layout, decoding=decoding)
            least = min(least, time.process_time() - started)
        taken += least
    return taken


@functools.cache
def _blocks() -> tuple[Block, ...]:
    with tempfile.TemporaryDirectory() as folder:
        with BinlogWriter(Path(folder), WriterOptions(sync=False)) as writer:
            for first in range(0, ROWS, ROWS_A_GROUP):
                gtid = Gtid(0, 1, first + 1)
                writer.write_group(gtid, encode_gtid(gtid, _SECOND), _events(first))
            writer.checkpoint()
        with open_log(folder) as log:
            return tuple(log.committed_blocks())


def _events(first: int) -> list[bytes]:
    origin = Origin(_SECOND, 1)
    encoder = TableEncoder(TableSpec("shop", "people", _COLUMNS, ("id",)), 1)
    rows: list[tuple[Value, ...]] = [
        (row, ("DE", "FR")[row % 2], f"somebody{row}@example.com") for row in range(first, first + ROWS_A_GROUP)
    ]
    return [encoder.table_map(origin), *encoder.insert(rows, origin), encode_xid(first, origin)]
