"""Targets that read logs from end to end: transactions, all views, indexes of tables."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from binlog_format.classic.reader import ClassicLog
from binlog_format.errors import BinlogError
from binlog_format.rows.images import read_images
from binlog_format.rows.json.json_rows import json_lines
from binlog_format.transactions.expansion import expanded
from binlog_format.views.changefeed import ChangefeedView
from binlog_format.views.changes import ChangesView
from binlog_format.views.events import EventsView
from binlog_format.views.table_index import TableIndex
from binlog_format.views.tables import TablesView
from binlog_format.views.transactions import TransactionsView
from tests.format.classic.logs import file_of, raw_events
from tests.format.innodb.inspection.small_logs import LogInMemory
from tests.format.transactions.test_committed import LOGS
from tests.fuzz.declaring import NUMBERS, Target
from tests.fuzz.row_targets import DECODINGS
from tests.fuzz.seeds import EDITS, Edit, spoiled
from tests.fuzz.server_seeds import BLOCK_SIZES, classic_parts

if TYPE_CHECKING:
    from binlog_format.rows.decoding import Decoding
    from tests.format.transactions.transaction_log import TransactionLog

_FILE = "mysql-bin.000001"
_EVENTS_MAX = 10_000
"""Plain events that a log of a few KiB may give."""


def spoiled_log(number: int, event_number: int, edits: list[Edit]) -> ClassicLog:
    """Real groups with a spoiled event, whose checksum is right."""
    head, events = classic_parts(number)
    row = event_number % len(events)
    changed = spoiled(events[row][:-4], edits, keeps_size=True) + events[row][-4:]
    content = file_of([*head, *events[:row], changed, *events[row + 1 :]])
    return ClassicLog(LogInMemory({_FILE: content}), block_size=BLOCK_SIZES[event_number % len(BLOCK_SIZES)])


def _read_view(view: EventsView | TransactionsView | ChangesView | ChangefeedView, log: ClassicLog) -> None:
    blocks = expanded(log.blocks()) if isinstance(view, EventsView) else log.committed_blocks()
    rows = 0
    with contextlib.suppress(BinlogError):
        for batch in view.batches(blocks):
            batch.validate(full=True)
            rows += batch.num_rows
            assert rows <= _EVENTS_MAX
            assert bytes(json_lines(batch, view.json_styles())).count(b"\n") == batch.num_rows


def views(number: int, event_number: int, edits: list[Edit], decoding: Decoding) -> None:
    """A spoiled log through all views."""
    log = spoiled_log(number, event_number, edits)
    _read_view(EventsView(), log)
    _read_view(TransactionsView(), log)
    _read_view(ChangesView(decoding=decoding), log)
    tables: list[dict[str, object]] = []
    with contextlib.suppress(BinlogError):
        for batch in TablesView(decoding=decoding).batches(log.committed_blocks()):
            tables += batch.to_pylist()
    for table in {f"{row['database']}.{row['table']}" for row in tables}:
        _read_view(ChangefeedView(table=table, decoding=decoding), log)
        _read_view(ChangesView(table=table, decoding=decoding), log)


def table_indexes(number: int, event_number: int, edits: list[Edit], later: list[Edit]) -> None:
    """What an index names is there again; and in a log that has changed meanwhile it is found out."""
    log = spoiled_log(number, event_number, edits)
    rows: list[dict[str, object]] = []
    with contextlib.suppress(BinlogError):
        for batch in TablesView().batches(log.committed_blocks()):
            rows += batch.to_pylist()
    changed = spoiled_log(number, event_number + 1, later)
    for row in rows:
        index_bytes = row["index"]
        assert isinstance(index_bytes, bytes)
        index = TableIndex.from_bytes(index_bytes)
        loaded = index.load(log)
        images = read_images(loaded.data, loaded.events, loaded.rows, loaded.layout)
        kinds = [int((images.table["kind"] == kind).sum()) for kind in range(4)]
        assert kinds == [row["inserts"], row["updates"], row["updates"], row["deletes"]]
        with contextlib.suppress(BinlogError):
            again = index.load(changed)
            assert again.data.tobytes() == loaded.data.tobytes()


def transactions(made: TransactionLog, number: int, event_number: int, edits: list[Edit]) -> None:
    """Savepoints, XA transactions and their ends, with a spoiled event, read from the start and from the middle."""
    name = sorted(made.files)[number % len(made.files)]
    events = raw_events(made.files[name])
    row = event_number % len(events)
    events[row] = spoiled(events[row][:-4], edits, keeps_size=True) + events[row][-4:]
    log = ClassicLog(LogInMemory({**made.files, name: file_of(events)}), block_size=BLOCK_SIZES[number % 3])
    for start in (made.positions[0], made.positions[number % len(made.positions)]):
        with contextlib.suppress(BinlogError):
            log.span(start)
        with contextlib.suppress(BinlogError):
            size = 0
            for block in log.committed_blocks(start):
                assert (block.events["start"] + block.events["size"] <= len(block.data)).all()
                size += len(block.events)
                assert size <= _EVENTS_MAX


_DECODINGS = st.sampled_from(DECODINGS)

TARGETS = {
    "views": Target(views, (NUMBERS, NUMBERS, EDITS, _DECODINGS)),
    "table_indexes": Target(table_indexes, (NUMBERS, NUMBERS, EDITS, EDITS)),
    "transactions": Target(transactions, (LOGS, NUMBERS, NUMBERS, EDITS)),
}
