"""Only committed rows come out, in commit order: against a model, wherever reading starts, however blocks are cut."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format.transactions.xa import PreparedXa, XaId, XaStep, pending_after
from tests.chance import examples
from tests.format.transactions.transaction_log import Transaction, TransactionLog, Vendor, reported

if TYPE_CHECKING:
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
