"""Prepared XA transactions of a classic log go with the offsets, and from there to whoever reads their XA COMMIT."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_connector.following.offsets import PreparedHistory, SourceOffset, prepared_from_text, prepared_to_text
from binlog_connector.spark.source import BinlogDataSource
from binlog_format.position import Position
from binlog_format.transactions import prepared
from binlog_format.transactions.xa import PreparedXa, XaId, XaKind, XaStep
from tests.format.transactions.transaction_log import Transaction, TransactionLog, Vendor

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_connector.spark.stream_reader import BinlogStreamReader

A, B = XaId(b"a", b"", 1), XaId(b"\x00;@'", b"b", 7)
XIDS = st.builds(XaId, st.binary(max_size=64), st.binary(max_size=64), st.integers(0, 2**32 - 1))
POSITIONS = st.builds(Position, st.integers(0, 2**40), st.integers(0, 2**40), st.integers(0, 16383))


@given(st.lists(st.builds(PreparedXa, XIDS, POSITIONS), max_size=5).map(tuple))
def test_prepared_transactions_come_back_from_the_checkpoint(pending: tuple[PreparedXa, ...]) -> None:
    assert prepared_from_text(prepared_to_text(pending)) == pending
    offset = SourceOffset(Position(3, 0, 4), prepared_xa=pending)
    assert SourceOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


def test_offset_of_an_earlier_version_knows_of_none() -> None:
    fields = {"version": 1, "format": "classic", "file_no": 1, "page": 0, "chunk": 4, "gtid": "0-1-7"}
    assert SourceOffset.from_json(fields).prepared_xa == ()
    assert "prepared_xa" not in SourceOffset.from_json(fields).to_json()


@pytest.mark.parametrize("text", ["X'61',X'',1", "X'61',X'',1@1:2", "@1:2:3", "nonsense@1:2:3", ";"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        prepared_from_text(text)


def test_history_says_what_is_prepared_at_each_place() -> None:
    start, first, second = Position(1, 0, 4), Position(1, 0, 100), Position(1, 0, 200)
    old = PreparedXa(A, Position(0, 0, 4))
    steps = (XaStep(first, B, XaKind.PREPARED), XaStep(second, A, XaKind.COMMITTED))
    known = PreparedHistory(start, (old,), steps)
    assert known.at(start) == known.at(first) == (old,)
    assert known.at(second) == (old, PreparedXa(B, first))
    assert known.at(Position(2, 0, 4)) == (PreparedXa(B, first),)
    unknown = PreparedHistory(start, (old,), None, kept=())
    assert unknown.at(start) == (old,)
    assert unknown.at(second) == ()


def _made() -> TransactionLog:
    rows = [("row", 100)] * 5
    transactions = [
        Transaction(rows, "prepare", A),
        Transaction(rows),
        Transaction(rows, "prepare", B),
        Transaction(rows),
        Transaction([], "xa commit", A),
        Transaction(rows),
        Transaction([], "xa rollback", B),
        Transaction(rows, "prepare", A),
        Transaction(rows),
        Transaction([], "xa commit", A),
    ]
    return TransactionLog(transactions, Vendor.MARIADB, file_groups=4)


def _reader(path: Path, **options: str) -> BinlogStreamReader:
    source = BinlogDataSource({"path": str(path), **options})
    return source.streamReader(source.schema())


@pytest.mark.parametrize("partitions", ["1", "3"])
@pytest.mark.parametrize("restarts", [False, True])
def test_rows_come_in_the_batch_of_their_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: str, *, restarts: bool
) -> None:
    made = _made()
    for name, content in made.files.items():
        (tmp_path / name).write_bytes(content)
    if not restarts:
        # What offsets carry is enough: nothing has to be searched for.
        monkeypatch.setattr(prepared, "SEARCH_SIZE_MAX", 0)
    options = {"maxBytesPerTrigger": "1500", "minPartitions": partitions}
    reader = _reader(tmp_path, **options)
    start = reader.initialOffset()
    found: list[tuple[tuple[int, int, int], int]] = []
    seen: set[str] = set()
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        seen.add(str(end.get("prepared_xa", "")))
        if restarts:
            reader = _reader(tmp_path, **options)
        for partition in reader.partitions(start, end):
            for batch in pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(partition))):
                found += [
                    ((row["position"]["file_no"], row["position"]["page"], row["position"]["chunk"]), _id(row))
                    for row in batch.to_pylist()
                ]
        start = json.loads(json.dumps(end))
    assert found == made.rows_between(made.positions[0], None)
    assert {"", prepared_to_text([PreparedXa(A, made.positions[0])])} <= seen


def _id(row: dict[str, str]) -> int:
    number: int = json.loads(row["after"])["id"]
    return number
