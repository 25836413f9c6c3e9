"""Messages that another program has published are left out: `NotTaken`."""

from __future__ import annotations

import pyarrow as pa
import pytest

from binlog_connector.envelope.message_batch import MessageKind
from binlog_connector.following.offsets import SourceOffset, TakenChanges
from binlog_format.position import Position
from binlog_streaming.topics.step_messages import NotTaken

GROUP = Position(1, 2, 3)
UPDATE_OF_KEYS = [
    (4, 0, "delete"),
    (4, 0, "tombstone"),
    (4, 0, "creation"),
    (4, 1, "delete"),
    (4, 1, "tombstone"),
    (4, 1, "creation"),
]


def messages(rows: list[tuple[int, int, str]]) -> pa.RecordBatch:
    names = {
        "kind": [MessageKind.CHANGE.value] * len(rows),
        "position": [{"file_no": 1, "page": 2, "chunk": 3}] * len(rows),
    }
    columns = dict(zip(("event_no", "row_no", "told"), map(list, zip(*rows, strict=True)), strict=True))
    return pa.RecordBatch.from_pydict({**names, **columns})


@pytest.mark.parametrize(
    ("rows", "row", "left"),
    [
        (UPDATE_OF_KEYS, 0, UPDATE_OF_KEYS),
        (UPDATE_OF_KEYS, 1, UPDATE_OF_KEYS[1:]),
        (UPDATE_OF_KEYS, 2, UPDATE_OF_KEYS[4:]),
        ([(3, 9, "creation"), (4, 0, "delete"), (4, 0, "tombstone")], 1, [(4, 0, "tombstone")]),
        ([(4, 0, "creation"), (4, 1, "creation")], 1, [(4, 1, "creation")]),
        ([(4, 0, "creation"), (4, 1, "creation")], 2, []),
    ],
)
def test_what_may_lack_of_the_last_row_is_sent(
    rows: list[tuple[int, int, str]], row: int, left: list[tuple[int, int, str]]
) -> None:
    """A connector stores one offset with all messages of a row, and may be stopped between two of them."""
    not_taken = NotTaken(SourceOffset(GROUP, taken=TakenChanges(4, row)))
    found = not_taken.of(messages(rows)).select(["event_no", "row_no", "told"])
    assert [tuple(one.values()) for one in found.to_pylist()] == left
