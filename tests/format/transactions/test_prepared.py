"""Where the rows of prepared XA transactions are kept, found again, and missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from binlog_format.errors import DataLossError
from binlog_format.transactions import prepared
from binlog_format.transactions.xa import PreparedXa, XaId
from binlog_format.views.table_index import TableIndex
from binlog_format.views.tables import TablesView
from tests.format.transactions.transaction_log import Transaction, TransactionLog, Vendor, reported

if TYPE_CHECKING:
    from binlog_format.block import Block

A, B = XaId(b"a", b"", 1), XaId(b"b", b"", 1)


def _prepare(xid: XaId, rows: int, size: int = 10) -> Transaction:
    return Transaction([("row", size)] * rows, "prepare", xid, is_safe=True)


def _commit(xid: XaId) -> Transaction:
    return Transaction([], "xa commit", xid, is_safe=True)


def _plain(rows: int = 1) -> Transaction:
    return Transaction([("row", 5)] * rows, is_safe=True)


def _made(vendor: Vendor = Vendor.MARIADB, file_groups: int = 1) -> TransactionLog:
    return TransactionLog(
        [_prepare(A, 20), _plain(), _prepare(B, 2), _commit(A), _plain(), _commit(B)], vendor, file_groups=file_groups
    )


@pytest.mark.parametrize("vendor", Vendor)
@pytest.mark.parametrize("kept_size_max", [0, 500, 1 << 20])
@pytest.mark.parametrize("block_size", [1, 300, 1 << 20])
def test_rows_are_the_same_from_memory_and_from_the_log(
    vendor: Vendor, kept_size_max: int, block_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "KEPT_SIZE_MAX", kept_size_max)
    made = _made(vendor)
    log = made.open(block_size)
    assert reported(log.committed_blocks()) == made.rows_between(made.positions[0], None)


@pytest.mark.parametrize("vendor", [Vendor.MARIADB, Vendor.MYSQL])
def test_stored_bytes_are_where_the_extents_say(vendor: Vendor) -> None:
    made = _made(vendor)
    log = made.open(1 << 20)
    rows = 0
    for block in log.committed_blocks():
        stored = block.extents[block.extents["size"] > 0]
        assert np.array_equal(log.read_extents(stored), _covered(block))
        rows += int((block.events["type"] == 23).sum())
    assert rows == 24


def _covered(block: Block) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    stops = np.append(block.extents["data_start"][1:], len(block.data))
    parts = [
        block.data[start:stop]
        for start, stop, size in zip(block.extents["data_start"], stops, block.extents["size"], strict=True)
        if size
    ]
    return np.concatenate(parts)


@pytest.mark.parametrize("vendor", Vendor)
def test_index_of_a_table_leads_to_the_rows_of_xa_transactions(vendor: Vendor) -> None:
    log = _made(vendor).open(1 << 20)
    (row,) = [row for batch in TablesView().batches(log.committed_blocks()) for row in batch.to_pylist()]
    assert row["inserts"] == 24
    loaded = TableIndex.from_bytes(row["index"]).load(log)
    direct = [
        (
            tuple(block.groups[event["group"]][["file_no", "page", "chunk"]]),
            int(event["event_no"]),
            _bytes(block, event),
        )
        for block in log.committed_blocks()
        for event in block.events[block.events["type"] == 23]
    ]
    again = [
        (
            tuple(loaded.groups[event["group"]][["file_no", "page", "chunk"]]),
            int(event["event_no"]),
            _bytes(loaded, event),
        )
        for event in loaded.events
    ]
    assert again == direct


def _bytes(block: object, event: np.void) -> bytes:
    data: np.ndarray[tuple[int], np.dtype[np.uint8]] = block.data  # type: ignore[attr-defined]
    return data[event["start"] : event["start"] + event["size"]].tobytes()


def test_start_between_prepare_and_commit_finds_the_rows() -> None:
    made = _made()
    log = made.open(1 << 20)
    for position in made.positions:
        assert reported(log.committed_blocks(position)) == made.rows_between(position, None)


@pytest.mark.parametrize("is_told", [False, True])
def test_purged_prepare_is_a_named_gap(*, is_told: bool) -> None:
    made = _made()
    known = (PreparedXa(A, made.positions[0]),) if is_told else ()
    del made.files["bin.000001"]
    log = made.open(1 << 20)
    with pytest.raises(
        DataLossError, match=r"XA_PREPARE_MISSING\] memory: XA COMMIT X'61',X'',1: its XA PREPARE.*Bring"
    ):
        reported(log.committed_blocks(prepared=known))
    assert reported(log.committed_blocks(made.positions[4])) == made.rows_between(made.positions[4], None)


def test_search_for_a_prepare_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "SEARCH_SIZE_MAX", 100)
    made = _made()
    with pytest.raises(DataLossError, match="XA_PREPARE_MISSING"):
        reported(made.open(1 << 20).committed_blocks(made.positions[3]))


def test_prepare_of_an_earlier_use_of_the_name_does_not_count() -> None:
    """A name is free again when its transaction has ended."""
    transactions = [_prepare(A, 1), _commit(A), _plain(), _prepare(A, 2), _plain(), _commit(A)]
    made = TransactionLog(transactions, Vendor.MARIADB, file_groups=1)
    log = made.open(1 << 20)
    for position in made.positions:
        assert reported(log.committed_blocks(position)) == made.rows_between(position, None)


def test_wrong_knowledge_of_a_prepare_is_not_believed() -> None:
    made = _made()
    known = (PreparedXa(A, made.positions[1]),)
    with pytest.raises(DataLossError, match=r"XA_PREPARE_MISSING.*does not prepare it"):
        reported(made.open(1 << 20).committed_blocks(made.positions[3], prepared=known))


def test_prepared_transaction_that_never_ends_is_never_reported() -> None:
    made = TransactionLog([_prepare(A, 3), _plain(2)], Vendor.MYSQL)
    assert [row for _, row in reported(made.open(1 << 20).committed_blocks())] == [4, 5]
