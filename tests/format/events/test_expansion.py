"""Blocks with compressed events become blocks with plain ones: the same groups, numbers and places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.block import BLOCK_SIZE
from binlog_format.errors import CorruptError
from binlog_format.events.layout import EventType
from binlog_format.gtids.gtid import Gtid
from binlog_format.transactions.expansion import expanded
from binlog_lab.event_encoding.event_encoding import (
    Origin,
    compress_event,
    encode_annotate_rows,
    encode_event,
    encode_payload,
)
from tests.format.views.made_log import MadeGroup, MadeLog, query, xid
from tests.without_compiler import printed_by

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_format.block import Block

ORIGIN = Origin(1_700_000_000, 3)


def _rows(size: int, *, kind: EventType = EventType.WRITE_ROWS_V1) -> bytes:
    head = bytes(8) + (b"\2\0" if kind >= EventType.WRITE_ROWS_V2 else b"") + b"\3\7"
    return encode_event(kind, head + (b"\7" if kind == EventType.UPDATE_ROWS_V1 else b"") + bytes(size), ORIGIN)


class Stored:
    """A group as it is stored, and what it expands to.

    Attributes:
        events: As they are stored, without the GTID event.
        plain: What each of them becomes.
    """

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self.plain: list[list[bytes]] = []

    def add(self, event: bytes) -> Stored:
        """An event that stays as it is."""
        self.events.append(event)
        self.plain.append([event])
        return self

    def compressed(self, event: bytes) -> Stored:
        """An event that MariaDB compresses."""
        self.events.append(compress_event(event))
        self.plain.append([event])
        return self

    def payload(self, *events: bytes, compressed: bool = True) -> Stored:
        """A compressed transaction of MySQL."""
        self.events.append(encode_payload(events, ORIGIN, compressed=compressed))
        self.plain.append(list(events))
        return self


@st.composite
def stored_groups(draw: st.DrawFn) -> Stored:
    """Groups with events of all forms."""
    stored = Stored()
    sizes = st.sampled_from([1, 50, 5000])
    for _ in range(draw(st.integers(0, 6))):
        match draw(st.sampled_from(["plain", "compressed", "compressed", "payload"])):
            case "plain":
                stored.add(draw(st.sampled_from([query("SAVEPOINT a"), encode_annotate_rows("x", ORIGIN)])))
            case "compressed":
                kind = EventType(draw(st.sampled_from([23, 24, 25, 30])))
                stored.compressed(_rows(draw(sizes), kind=kind) if draw(st.booleans()) else query("x" * 100))
            case _:
                inner = [_rows(draw(sizes), kind=EventType.WRITE_ROWS_V2) for _ in range(draw(st.integers(1, 5)))]
                stored.payload(*inner, compressed=draw(st.booleans()))
    return stored.add(xid())


def _log(groups: list[Stored], *, page_size: int = 1 << 40, **options: int) -> MadeLog:
    made = [MadeGroup(Gtid(0, 1, n), 1_700_000_000, group.events) for n, group in enumerate(groups, 1)]
    return MadeLog(made, page_size=page_size, **options)


def _bytes(block: Block) -> list[bytes]:
    starts, sizes = block.events["start"].tolist(), block.events["size"].tolist()
    return [block.data[start : start + size].tobytes() for start, size in zip(starts, sizes, strict=True)]


def _check_tables(block: Block) -> None:
    # What the contract of `Block` demands, whatever is in it.
    events, groups, extents = block.events, block.groups, block.extents
    assert events["type"].tolist() == [event[4] for event in _bytes(block)]
    ends = groups["first_event"] + groups["event_count"]
    assert groups["first_event"].tolist() == [0, *ends[:-1].tolist()]
    assert ends[-1] == len(events)
    assert (events["group"] == np.repeat(np.arange(len(groups)), groups["event_count"])).all()
    if block.origins is not None:  # plain blocks are as the log gave them
        assert (groups["size"] == np.add.reduceat(events["size"], groups["first_event"])).all()
    assert groups["begins"][1:].all()
    assert groups["ends"][:-1].all()
    assert extents["data_start"][0] == 0
    assert (np.diff(extents["data_start"]) > 0).all()
    assert (
        (extents["size"] == np.diff(np.append(extents["data_start"], len(block.data)))) | (extents["size"] == 0)
    ).all()


def _check_origins(log: MadeLog, block: Block, stored: Stored, first: int) -> None:
    # Events of one group in a block: their stored bytes, and where those are.
    assert block.origins is not None
    numbers = [number for number, events in enumerate(stored.plain) for _ in events]
    inner = [
        n if len(events) > 1 or stored.events[k] != events[0] else -1
        for k, events in enumerate(stored.plain)
        for n in range(len(events))
    ]
    for row in range(len(block.events)):
        number = first + row - 1  # the first event of each group is that of its GTID
        origin = block.origins[row]
        if number < 0:
            assert origin["start"] == block.events["start"][row]
            continue
        start, size = int(origin["start"]), int(origin["size"])
        whole = stored.events[numbers[number]]
        assert size == len(whole)
        at = block.place(int(block.events["start"][row]))
        assert at is not None
        assert at.byte is not None
        if start >= 0:
            assert block.data[start : start + size].tobytes() == whole
            assert block.place(start) == at
        if whole[4] == EventType.TRANSACTION_PAYLOAD:
            assert origin["inner_no"] == inner[number]
        else:
            assert origin["inner_no"] == -1
        assert bytes(log.file[at.byte : at.byte + 19]) == whole[:19]


def _check(log: MadeLog, groups: list[Stored], blocks: Iterable[Block]) -> int:
    """Hold blocks against what they should be; how many there are."""
    number = event_no = count = 0
    for block in blocks:
        count += 1
        _check_tables(block)
        events = _bytes(block)
        for group in block.groups:
            expected = [log.groups[number].all_events()[0], *(e for plain in groups[number].plain for e in plain)]
            at = log.position(number)
            assert (group["file_no"], group["page"], group["chunk"]) == (at.file_no, at.page, at.chunk)
            assert group["seqno"] == number + 1
            assert (group["event_no"], group["begins"]) == (event_no, event_no == 0)
            rows = slice(int(group["first_event"]), int(group["first_event"] + group["event_count"]))
            assert events[rows] == expected[event_no : event_no + group["event_count"]]
            assert block.events["event_no"][rows].tolist() == list(range(event_no, event_no + group["event_count"]))
            if block.origins is not None and len(block.groups) == 1:
                _check_origins(log, block, groups[number], event_no)
            event_no += int(group["event_count"])
            assert group["ends"] == (event_no == len(expected))
            if group["ends"]:
                number, event_no = number + 1, 0
        assert block.next_position == log.position(number)
    assert number == len(groups)
    return count


@given(st.lists(stored_groups(), min_size=1, max_size=6), st.integers(1, 3), st.sampled_from([1, 2, 100]))
def test_events_are_those_that_were_compressed(groups: list[Stored], block_groups: int, piece_events: int) -> None:
    log = _log(groups, block_groups=block_groups, piece_events=piece_events)
    _check(log, groups, expanded(log.blocks()))


@given(st.lists(stored_groups(), min_size=1, max_size=3), st.sampled_from([64, 300]))
def test_events_cut_by_pages_are_expanded(groups: list[Stored], page_size: int) -> None:
    log = _log(groups, page_size=page_size)
    assert [_bytes(block) for block in expanded(log.blocks())] == [
        _bytes(block) for block in expanded(_log(groups).blocks())
    ]


def test_plain_block_passes_untouched() -> None:
    log = _log([Stored().add(query("SAVEPOINT a")).add(xid())] * 4)
    blocks = list(log.blocks())
    assert all(found is given for found, given in zip(expanded(blocks), blocks, strict=True))


def test_plain_rest_of_an_expanded_group_goes_on_with_its_numbers() -> None:
    group = Stored().payload(*[_rows(5)] * 7).add(query("SAVEPOINT a")).add(query("SAVEPOINT b")).add(xid())
    log = _log([group, group], piece_events=2)
    blocks = list(expanded(log.blocks()))
    assert blocks[1].origins is None
    assert blocks[1].groups["event_no"][0] == 8
    _check(log, [group, group], blocks)


def test_numbers_of_an_expanded_group_are_no_matter_of_the_next_one() -> None:
    """The block between them has the rest of the one and the start of the other."""
    group = Stored().payload(*[_rows(5)] * 7).add(query("SAVEPOINT a")).add(xid())
    plain = Stored().add(query("SAVEPOINT a")).add(query("SAVEPOINT b")).add(xid())
    log = _log([group, plain])
    blocks = [log._block(parts) for parts in ([(0, 0, 2)], [(0, 2, 4), (1, 0, 2)], [(1, 2, 4)])]
    _check(log, [group, plain], expanded(blocks))


BIG = _rows(BLOCK_SIZE // 4)


@pytest.mark.parametrize(
    ("groups", "sizes"),
    [
        ([Stored().compressed(BIG).add(xid())] * 10, [3, 3, 3, 1]),  # whole groups
        ([Stored().compressed(BIG).compressed(BIG).compressed(BIG).add(xid())] * 3, [1, 1, 1]),
    ],
)
def test_small_groups_stay_whole(groups: list[Stored], sizes: list[int]) -> None:
    log = _log(groups, block_groups=100)
    blocks = list(expanded(log.blocks()))
    assert [len(block.groups) for block in blocks] == sizes
    _check(log, groups, blocks)


def test_large_group_comes_in_pieces() -> None:
    group = Stored()
    for _ in range(9):
        group.compressed(BIG).add(query("SAVEPOINT a"))
    groups = [Stored().add(xid()), group.add(xid()), Stored().compressed(_rows(3)).add(xid())]
    log = _log(groups, block_groups=100)
    assert _check(log, groups, expanded(log.blocks())) >= 3


def test_large_payload_comes_in_pieces() -> None:
    inner = [_rows(BLOCK_SIZE // 4 + number, kind=EventType.WRITE_ROWS_V2) for number in range(11)]
    inner[5] = _rows(3 * BLOCK_SIZE, kind=EventType.WRITE_ROWS_V2)
    groups = [Stored().add(xid()), Stored().payload(*inner, xid()), Stored().payload(_rows(4), xid()).add(xid())]
    log = _log(groups, block_groups=100)
    blocks = list(expanded(log.blocks()))
    assert _check(log, groups, blocks) >= 5
    assert all(len(block.data) <= BLOCK_SIZE or len(block.events) == 1 for block in blocks)


def test_large_payload_that_is_cut_by_pages_is_refused() -> None:
    """No server writes one: MySQL has no pages, and MariaDB no payloads."""
    inner = [_rows(BLOCK_SIZE // 2, kind=EventType.WRITE_ROWS_V2)] * 3
    with pytest.raises(CorruptError, match="TRANSACTION_PAYLOAD event: it does not lie in one piece"):
        list(expanded(_log([Stored().payload(*inner)], page_size=64).blocks()))


def test_damage_is_named_with_its_place() -> None:
    for stored in (Stored().compressed(query("x" * 500)), Stored().payload(query("x" * 500))):
        stored.events[0] = stored.events[0][:-3] + b"xxx"
        log = _log([Stored().add(xid()), stored.add(xid())])
        with pytest.raises(CorruptError, match="BAD_EVENT") as raised:
            list(expanded(log.blocks()))
        assert raised.value.at is not None
        assert raised.value.at.byte == log.file.index(stored.events[0])


PROGRAM = """
import hashlib
from binlog_format.transactions.expansion import expanded
from tests.format.events.test_expansion import mixed_log

digest = hashlib.sha256()
for block in expanded(mixed_log().blocks()):
    for array in (block.data, block.events, block.groups, block.extents, block.origins):
        digest.update(b"" if array is None else array.tobytes())
print(digest.hexdigest())
"""


def mixed_log() -> MadeLog:
    """Events of all forms."""
    groups = [
        Stored().compressed(_rows(9, kind=EventType(kind))).compressed(query("x" * 99)) for kind in (23, 24, 25, 30)
    ]
    groups += [Stored().payload(_rows(5), xid(), compressed=compressed) for compressed in (True, False)]
    return _log([group.add(xid()) for group in groups], block_groups=4, piece_events=3)


def test_kernels_do_the_same_without_the_compiler() -> None:
    compiled, plain = printed_by(PROGRAM)
    assert plain == compiled
