"""Only committed rows come out, in commit order: against a model, wherever reading starts, however blocks are cut.

XA transactions and savepoints in the logs of real servers. Where the rows of prepared XA transactions are kept, found
again, and missed.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format import open_log
from binlog_format.errors import DataLossError
from binlog_format.transactions import prepared
from binlog_format.transactions.xa import PreparedXa, XaId, XaKind, XaStep, pending_after
from binlog_format.views.table_index import TableIndex
from binlog_format.views.tables import TablesView
from tests.chance import examples
from tests.corpus import SERVER_CASES
from tests.format.transactions.transaction_log import Transaction, TransactionLog, Vendor, reported

if TYPE_CHECKING:
    from binlog_format.block import Block
    from binlog_format.classic.reader import ClassicLog
    from binlog_format.position import Position


XIDS = [XaId(b"a", b"", 1), XaId(b"\x00\xff'", b"b", 7), XaId(b"x" * 64, b"y" * 64, 0xFFFFFF)]
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("row"), st.sampled_from([0, 10, 300])),
        st.tuples(st.sampled_from(["save", "back"]), st.integers(0, 2)),
    ),
    max_size=8,
)


@st.composite
def transactions(draw: st.DrawFn) -> list[Transaction]:
    """XA transactions are prepared before they end, and not twice at a time."""
    found: list[Transaction] = []
    prepared: list[XaId] = []
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["plain", "plain", "prepare", "end", "one phase"]))
        if kind == "end" and prepared:
            xid = prepared.pop(draw(st.integers(0, len(prepared) - 1)))
            found.append(Transaction([], draw(st.sampled_from(["xa commit", "xa commit", "xa rollback"])), xid))
            continue
        free = [xid for xid in XIDS if xid not in prepared]
        actions = draw(ACTIONS)
        if kind in ("prepare", "one phase") and free:
            xid = draw(st.sampled_from(free))
            prepared += [xid] if kind == "prepare" else []
            found.append(Transaction(actions, kind, xid, is_safe=draw(st.booleans())))
        else:
            end = draw(st.sampled_from(["commit", "commit", "commit", "rollback"]))
            found.append(Transaction(actions, end, is_safe=end == "commit" and draw(st.booleans())))
    return found


LOGS = st.builds(TransactionLog, transactions(), st.sampled_from(Vendor), file_groups=st.sampled_from([1, 2, 5, 1000]))
BLOCK_SIZES = st.sampled_from([1, 100, 500, 1500, 1 << 20])


def _from(
    log: ClassicLog, start: Position, end: Position | None = None, prepared: tuple[PreparedXa, ...] = ()
) -> list[tuple[tuple[int, int, int], int]]:
    return reported(log.committed_blocks(start, end, prepared=prepared))


@settings(max_examples=examples(60))
@given(LOGS, BLOCK_SIZES)
def test_committed_rows_are_those_of_the_model(made: TransactionLog, block_size: int) -> None:
    log = made.open(block_size)
    assert _from(log, made.positions[0]) == made.rows_between(made.positions[0], None)


@settings(max_examples=examples(40))
@given(LOGS, BLOCK_SIZES)
def test_reading_from_every_position_gives_the_rest(made: TransactionLog, block_size: int) -> None:
    """With what is known to be prepared there, and without: then the log before it is searched."""
    log = made.open(block_size)
    for position in made.positions:
        expected = made.rows_between(position, None)
        known = pending_after((), [step for step in made.steps if step.position < position])
        assert _from(log, position) == expected
        assert _from(log, position, None, known) == expected


@settings(max_examples=examples(40))
@given(LOGS, BLOCK_SIZES, st.data())
def test_parts_give_what_the_whole_gives(made: TransactionLog, block_size: int, data: st.DataObject) -> None:
    log = made.open(block_size)
    cuts = data.draw(st.lists(st.sampled_from(made.positions), unique=True, max_size=4).map(sorted))
    edges = [made.positions[0], *cuts, None]
    parts = [_from(log, start, end) for start, end in itertools.pairwise(edges) if start is not None]
    assert list(itertools.chain(*parts)) == made.rows_between(made.positions[0], None)


@settings(max_examples=examples(60))
@given(LOGS, BLOCK_SIZES, st.integers(1, 3000))
def test_spans_tell_the_steps_of_xa_transactions(made: TransactionLog, block_size: int, size_max: int) -> None:
    log = made.open(block_size)
    assert list(log.span(made.positions[0]).xa) == made.steps
    found: list[XaStep] = []
    start = made.positions[0]
    while (span := log.span(start, size_max=size_max)).groups:
        found += span.xa
        start = span.end
    assert found == made.steps


@settings(max_examples=examples(40))
@given(LOGS, BLOCK_SIZES)
def test_blocks_keep_their_shape(made: TransactionLog, block_size: int) -> None:
    """Groups follow one another as before, and their rows state where their events are."""
    log = made.open(block_size)
    seen: list[Position] = []
    is_open = False
    for block in log.committed_blocks():
        counts = block.groups["event_count"]
        assert block.groups["first_event"].tolist() == (counts.cumsum() - counts).tolist()
        assert block.events["group"].tolist() == [g for g, count in enumerate(counts) for _ in range(count)]
        assert counts.sum() == len(block.events)
        assert block.extents["data_start"][:1].tolist() in ([0], [])
        assert (block.extents["data_start"][1:] >= block.extents["data_start"][:-1]).all()
        assert block.origins is None or len(block.origins) == len(block.events)
        for number, group in enumerate(block.groups):
            position = next(
                p for p in made.positions if (p.file_no, p.page, p.chunk) == group[["file_no", "page", "chunk"]].item()
            )
            events = block.events[block.events["group"] == number]
            assert group["size"] == events["size"].sum()
            assert len(events) == 0 or group["event_no"] == events["event_no"][0]
            assert bool(group["begins"]) is not is_open
            is_open = not group["ends"]
            if group["begins"]:
                seen.append(position)
    assert seen == made.positions
    assert not is_open


MARIADB_CASES = ["mariadb-10.11/ops", "mariadb-10.11/ops_compressed"]
MYSQL_CASES = ["mysql-9/ops", "mysql-9/ops_zstd"]
XA_GTIDS = {
    "mariadb-10.11/ops": ("0-1011-133", "0-1011-134", "0-1011-139"),
    "mariadb-10.11/ops_compressed": ("0-1011-133", "0-1011-134", "0-1011-139"),
}


def _rows(case: str, **options: object) -> list[tuple[int, str | None]]:
    """Id and GTID of each row of `t.many` after a change."""
    rows = []
    with open_log(str(SERVER_CASES / case)) as log:
        for batch in log.changes(tables=r"t\.many", **options):  # type: ignore[arg-type]
            rows += [
                (json.loads(row["after"])["id"], row["gtid"]) for row in batch.to_pylist() if row["after"] is not None
            ]
    return rows


@pytest.mark.parametrize("case", MARIADB_CASES + MYSQL_CASES)
def test_xa_rows_come_at_their_commit_or_never(case: str) -> None:
    rows = dict(_rows(case))
    assert {6001, 6002, 6005} <= rows.keys()
    assert 6003 not in rows, "XA ROLLBACK X'00ff27'"
    assert 3004 not in rows, "between SAVEPOINT `q1` and ROLLBACK TO `q1`"
    gtids = [gtid for row, gtid in rows.items() if row in (6001, 6002, 6005)]
    if case in XA_GTIDS:
        assert tuple(gtids) == XA_GTIDS[case]
    numbers = [int(str(gtid).replace(":", "-").rsplit("-", 1)[1]) for gtid in gtids]
    assert [later - first for first, later in itertools.pairwise(numbers)] == [1, 5]


@pytest.mark.parametrize("case", MARIADB_CASES + MYSQL_CASES)
def test_steps_of_xa_transactions_are_found_by_headers(case: str) -> None:
    with open_log(str(SERVER_CASES / case)) as log:
        steps = log.span(log.start_position()).xa
        assert [(step.kind, step.xid.gtrid) for step in steps] == [
            (XaKind.PREPARED, b"xa1"),
            (XaKind.COMMITTED, b"xa1"),
            (XaKind.PREPARED, b"\x00\xff'"),
            (XaKind.ROLLED_BACK, b"\x00\xff'"),
            (XaKind.PREPARED, b"xa5"),
            (XaKind.COMMITTED, b"xa5"),
        ]
        assert pending_after((), steps) == ()
        assert pending_after((), steps[:5]) == (PreparedXa(steps[4].xid, steps[4].position),)


@pytest.mark.parametrize("case", MARIADB_CASES + MYSQL_CASES)
def test_reading_from_the_middle_finds_the_rows_before_it(case: str) -> None:
    whole = _rows(case)
    with open_log(str(SERVER_CASES / case)) as log:
        commit = log.span(log.start_position()).xa[-1]
    later = _rows(case, start=commit.position)
    assert later == whole[len(whole) - len(later) :]
    assert later[0][0] == 6005


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
