"""Row events out of fragments are those that were cut: same bytes, numbers, places; in an index too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format.block import FROM_FRAGMENTS, PART_FROM_FRAGMENTS
from binlog_format.errors import CorruptError, DataLossError, UnsupportedError
from binlog_format.events.layout import EventType
from binlog_format.fragments import joining
from binlog_format.gtids.gtid import Gtid
from binlog_format.rows.images import read_images
from binlog_format.rows.table_events import TableMaps
from binlog_format.transactions.expansion import expanded
from binlog_format.views.changefeed import changefeed_batch, changefeed_schema
from binlog_format.views.events import EventsView
from binlog_lab.event_encoding.event_encoding import Origin, compress_event, encode_fragments
from binlog_lab.event_encoding.table_encoding import TableEncoder
from tests.chance import examples
from tests.format.fragments.fragmented_work import FRAGMENT_ORIGIN, fragmented_works, marked_as_compressed
from tests.format.views.made_log import MadeGroup, MadeLog, query, xid
from tests.format.views.made_tables import ITEMS, LOG, SPECS, WIDE, table_indexes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_format.block import Block, Table
    from binlog_format.views.table_index import TableIndex
    from tests.format.views.made_tables import Row, Work

ORIGIN = Origin(1_700_000_001, 7)
PAGES = st.sampled_from([64, 300, 1 << 40])
BLOCK_GROUPS = st.integers(1, 3)
PIECE_EVENTS = st.sampled_from([1, 2, 5, 100])


def _log(groups: list[MadeGroup], *, page_size: int = 1 << 40, **options: int) -> MadeLog:
    return MadeLog(groups, page_size=page_size, **options)


def _group(number: int, events: list[bytes]) -> MadeGroup:
    return MadeGroup(Gtid(0, 1, number), 1_700_000_000, events)


def _check_tables(block: Block) -> None:
    events, groups, extents = block.events, block.groups, block.extents
    ends = groups["first_event"] + groups["event_count"]
    assert groups["first_event"].tolist() == [0, *ends[:-1].tolist()]
    assert ends[-1] == len(events)
    assert (events["group"] == np.repeat(np.arange(len(groups)), groups["event_count"])).all()
    assert (groups["size"] == np.add.reduceat(events["size"], groups["first_event"])).all()
    assert groups["begins"][1:].all()
    assert groups["ends"][:-1].all()
    assert extents["data_start"][0] == 0
    assert (np.diff(extents["data_start"]) > 0).all()
    sizes = np.diff(np.append(extents["data_start"], len(block.data)))
    assert ((extents["size"] == sizes) | (extents["size"] == 0)).all()


def _events(blocks: Iterable[Block]) -> Iterator[tuple[int, int, bytes]]:
    """Group (its place), number in it, and bytes of every event; sees to it that numbers and groups fit together."""
    number = 0
    begins = True
    for block in blocks:
        _check_tables(block)
        for group in block.groups:
            assert group["begins"] == begins
            number = 0 if begins else number
            assert group["event_no"] == number
            begins = bool(group["ends"])
            rows = slice(int(group["first_event"]), int(group["first_event"] + group["event_count"]))
            for event in block.events[rows]:
                assert event["event_no"] == number
                start, size = int(event["start"]), int(event["size"])
                content = block.data[start : start + size].tobytes()
                assert (content[4], int.from_bytes(content[9:13], "little")) == (event["type"], size)
                assert int.from_bytes(content[:4], "little") == event["timestamp"]
                yield int(group["seqno"]), number, content
                number += 1
    assert begins


def _stored_extents(block: Block) -> Table:
    return block.extents[block.extents["size"] > 0]


@settings(max_examples=examples(40))
@given(fragmented_works(), PAGES, BLOCK_GROUPS, PIECE_EVENTS)
def test_joined_events_are_those_that_were_cut(
    made: tuple[Work, list[MadeGroup]], page_size: int, block_groups: int, piece_events: int
) -> None:
    work, groups = made
    log = _log(groups, page_size=page_size, block_groups=block_groups, piece_events=piece_events)
    assert list(_events(expanded(log.blocks()))) == list(_events(_log(work.groups).blocks()))


@settings(max_examples=examples(40))
@given(fragmented_works(), PAGES, PIECE_EVENTS)
def test_bytes_of_joined_events_have_the_places_of_their_fragments(
    made: tuple[Work, list[MadeGroup]], page_size: int, piece_events: int
) -> None:
    _, groups = made
    log = _log(groups, page_size=page_size, piece_events=piece_events)
    for block in expanded(log.blocks()):
        stored = log.read_extents(_stored_extents(block))
        there = block.data[: len(stored)].copy()
        if block.origins is not None:
            for start in block.events["start"][block.origins["inner_no"] == FROM_FRAGMENTS].tolist():
                for header in (slice(start + 4, start + 5), slice(start + 9, start + 13)):  # type and size
                    stored[header] = there[header]
            of_payload = block.origins["start"] != block.events["start"]
            for start in block.origins["start"][of_payload].tolist():
                stored[start + 9 : start + 13] = there[start + 9 : start + 13]
        assert np.array_equal(stored, there)


def _rows(index: TableIndex, log: MadeLog, size_max: int | None = None) -> list[dict[str, object]]:
    pieces = [index.load(log)] if size_max is None else index.pieces(log, size_max=size_max)
    batches = []
    for piece in pieces:
        images = read_images(piece.data, piece.events, piece.rows, piece.layout)
        batches.append(changefeed_batch(images, piece.events, piece.groups))
    rows: list[dict[str, object]] = pa.Table.from_batches(batches, schema=changefeed_schema(index.layout)).to_pylist()
    return [
        {name: value for name, value in row.items() if name not in ("_position", "_commit_version")} for row in rows
    ]


@settings(max_examples=examples(40))
@given(fragmented_works(), PAGES, PIECE_EVENTS, st.sampled_from([None, 1, 100, 1000]))
def test_index_gives_the_rows_of_a_log_without_fragments(
    made: tuple[Work, list[MadeGroup]], page_size: int, piece_events: int, size_max: int | None
) -> None:
    work, groups = made
    plain, log = _log(work.groups), _log(groups, page_size=page_size, piece_events=piece_events)
    expected, found = table_indexes(plain.blocks()), table_indexes(expanded(log.blocks()))
    for one, other in zip(found, expected, strict=True):
        assert (one.layout, one.size, one.checks) == (other.layout, other.size, other.checks)
        assert _rows(one, log, size_max) == _rows(other, plain)


# --- events that are too large to be joined ------------------------------------------------------------------


@st.composite
def large_events(draw: st.DrawFn) -> tuple[list[MadeGroup], int]:
    """Groups whose row events have many rows, some of them large; how many rows there are."""
    groups = []
    count = 0
    for number in range(1, draw(st.integers(1, 3)) + 1):
        events = []
        for _ in range(draw(st.integers(1, 3))):
            spec = draw(st.sampled_from(SPECS))
            sizes = draw(st.lists(st.sampled_from([0, 3, 20]), min_size=1, max_size=60))
            encoder = TableEncoder(spec, 5, rows_size_max=1 << 30)
            rows: list[Row]
            if spec is LOG:
                rows = [(count + i, b"x" * size) for i, size in enumerate(sizes)]
            elif spec is WIDE:
                rows = [(*[count] * 5, *[None if size else 1] * 4) for size in sizes]
            else:
                rows = [(count + i, "x" * size, size) for i, size in enumerate(sizes)]
            count += len(rows)
            pairs = zip(rows, reversed(rows), strict=True)
            is_update = draw(st.booleans())
            events += [encoder.table_map(ORIGIN), *([query("SAVEPOINT a")] * draw(st.integers(0, 2)))]
            (event,) = encoder.update(pairs, ORIGIN) if is_update else encoder.delete(rows, ORIGIN)
            event = marked_as_compressed(event) if draw(st.booleans()) else event
            threshold = draw(st.integers(41, 40 + len(event) - 1))
            events += encode_fragments(event, FRAGMENT_ORIGIN, threshold, number_first=draw(st.booleans()))
        groups.append(_group(number, [*events, xid()]))
    return groups, count


@pytest.fixture
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "JOINED_SIZE_MAX", 200)
    monkeypatch.setattr(joining, "BLOCK_SIZE", 100)


def _changed_rows(blocks: Iterable[Block]) -> list[tuple[object, ...]]:
    """Key, kind and bytes of every image; rows of an original event count on over its parts."""
    found: list[tuple[object, ...]] = []
    maps = TableMaps()
    for block in blocks:
        for touched in maps.resolve(block):
            images = read_images(block.data, block.events, touched.events, touched.layout)
            columns = [images.column(column).to_pylist() for column in range(len(touched.layout.columns))]
            numbers = block.events["event_no"][images.table["event"]].tolist()
            groups = block.groups["seqno"][block.events["group"][images.table["event"]]].tolist()
            row_nos, kinds = images.table["row_no"].tolist(), images.table["kind"].tolist()
            found += zip(groups, numbers, row_nos, kinds, *columns, strict=True)
    return sorted(found, key=lambda row: row[:4])


@pytest.mark.usefixtures("_small_parts")
@settings(max_examples=examples(40))
@given(large_events(), PAGES, BLOCK_GROUPS, PIECE_EVENTS)
def test_large_event_becomes_events_of_whole_rows_however_it_is_read(
    made: tuple[list[MadeGroup], int], page_size: int, block_groups: int, piece_events: int
) -> None:
    groups, _ = made
    log = _log(groups, page_size=page_size, block_groups=block_groups, piece_events=piece_events)
    once = list(expanded(_log(groups).blocks()))
    events = list(_events(once))
    assert list(_events(expanded(log.blocks()))) == events
    assert all(len(content) < 400 for _, _, content in events)
    rows = _changed_rows(once)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joining, "JOINED_SIZE_MAX", 1 << 30)
        whole = _changed_rows(expanded(log.blocks()))
    assert [(row[0], *row[3:]) for row in rows] == [(row[0], *row[3:]) for row in whole]
    for block in once:
        if block.origins is None:
            continue
        for event, origin in zip(block.events, block.origins, strict=True):
            if origin["inner_no"] < -1:
                ends_statement = block.data[int(event["start"]) + 25] & 1
                assert ends_statement == (origin["inner_no"] == FROM_FRAGMENTS)


@pytest.mark.usefixtures("_small_parts")
@settings(max_examples=examples(40))
@given(large_events(), PAGES, PIECE_EVENTS, st.sampled_from([None, 1, 300]))
def test_index_of_a_large_event_gives_its_rows(
    made: tuple[list[MadeGroup], int], page_size: int, piece_events: int, size_max: int | None
) -> None:
    groups, count = made
    log = _log(groups, page_size=page_size, piece_events=piece_events)
    found = 0
    for index in table_indexes(expanded(log.blocks())):
        rows = _rows(index, log, size_max)
        assert rows == _rows(index, log)
        found += sum(row["_change_type"] in ("delete", "update_postimage") for row in rows)
        key = [
            (row["_gtid"], row["_event_no"], row["_row_no"]) for row in rows if row["_change_type"] != "update_preimage"
        ]
        assert key == sorted(set(key))
    assert found == count


@pytest.mark.usefixtures("_small_parts")
def test_row_larger_than_a_part_stays_whole() -> None:
    encoder = TableEncoder(LOG, 5, rows_size_max=1 << 30)
    wide = TableEncoder(ITEMS, 6, rows_size_max=1 << 30)
    (event,) = wide.insert(
        [(1, "a", 1), (2, "ä" * 20, 2), (3, "x" * 40, 3), *[(n, "b", n) for n in range(4, 30)]], ORIGIN
    )
    events = [encoder.table_map(ORIGIN), wide.table_map(ORIGIN), *encode_fragments(event, ORIGIN, 50), xid()]
    blocks = list(expanded(_log([_group(1, events)], piece_events=2).blocks()))
    assert [row[4] for row in _changed_rows(blocks)] == list(range(1, 30))
    inner = [number for block in blocks if block.origins is not None for number in block.origins["inner_no"].tolist()]
    assert inner.count(PART_FROM_FRAGMENTS) > 3
    assert inner.count(FROM_FRAGMENTS) == 1


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([], "no table map for its table id"),
        ([TableEncoder(LOG, 5).table_map(ORIGIN)], "its columns are not those of the table map of audit.log"),
        ([TableEncoder(ITEMS, 5).table_map(ORIGIN)], "its rows do not fit the table map, or end beyond the event"),
    ],
)
def test_large_event_that_does_not_fit_its_table_map_is_named(events: list[bytes], reason: str) -> None:
    (event,) = TableEncoder(ITEMS, 5, rows_size_max=1 << 30).insert([(n, "b" * 30, n) for n in range(20)], ORIGIN)
    event = event[:-1] if "fit" in reason else event
    event = event[:9] + len(event).to_bytes(4, "little") + event[13:]
    log = _log([_group(1, [*events, *encode_fragments(event, ORIGIN, 90), xid()])])
    with pytest.raises(CorruptError, match=reason) as raised:
        list(expanded(log.blocks()))
    assert raised.value.condition == "BINLOG_CORRUPT.BAD_EVENT"
    assert raised.value.at is not None


@pytest.mark.usefixtures("_small_parts")
def test_large_event_with_compressed_rows_is_named() -> None:
    rng = np.random.default_rng(1)
    encoder = TableEncoder(LOG, 5, rows_size_max=1 << 30)
    (event,) = encoder.insert([(n, rng.bytes(20)) for n in range(30)], ORIGIN)
    events = [encoder.table_map(ORIGIN), *encode_fragments(compress_event(event), ORIGIN, 90), xid()]
    with pytest.raises(UnsupportedError, match="its rows are compressed"):
        list(expanded(_log([_group(1, events)]).blocks()))


# --- what is missing, and what is damaged --------------------------------------------------------------------


def _cut_insert(*, number_first: bool = False) -> tuple[bytes, list[bytes]]:
    encoder = TableEncoder(ITEMS, 5)
    (event,) = encoder.insert([(n, "name", n) for n in range(10)], ORIGIN)
    fragments = encode_fragments(event, FRAGMENT_ORIGIN, 100, number_first=number_first)
    assert len(fragments) == 4
    return encoder.table_map(ORIGIN), fragments


@pytest.mark.parametrize("number_first", [False, True])
@pytest.mark.parametrize("piece_events", [1, 3, 100])
def test_every_flipped_bit_of_a_field_is_named(piece_events: int, number_first: bool) -> None:
    """Counters, flags, the size of the original event; in its header its type and its size."""
    table_map, fragments = _cut_insert(number_first=number_first)
    for number, fragment in enumerate(fragments):
        fields = [*range(19, 28)] if number else [*range(19, 36), 36 + 4, *range(36 + 9, 36 + 13)]
        for byte in fields:
            for bit in range(8):
                damaged = bytearray(fragment)
                damaged[byte] ^= 1 << bit
                events = [table_map, *fragments[:number], bytes(damaged), *fragments[number + 1 :], xid()]
                size = int.from_bytes(fragments[0][28:36], "little")
                if damaged[36 + 9 : 36 + 13] == (size + 4).to_bytes(4, "little"):
                    continue  # as where a checksum is counted
                log = _log([_group(1, events)], piece_events=piece_events)
                with pytest.raises((CorruptError, UnsupportedError), match=r"row event") as raised:
                    list(expanded(log.blocks()))
                assert raised.value.at is not None
                assert raised.value.at.byte is not None


@pytest.mark.parametrize("piece_events", [1, 2, 100])
@pytest.mark.parametrize(
    ("order", "reason", "at"),
    [
        ([0, 1, 2], "3 of 4 are there, then an event of type 16", -1),
        ([0, 1, 3], "expected number 3 of 4, its two counters are 4 and 4", 3),
        ([1, 2, 3], "expected the first one of at least 2, its two counters are 4 and 2", 1),
        ([0, 2, 1, 3], "expected number 2 of 4, its two counters are 4 and 3", 2),
        ([0, 0, 1, 2, 3], "expected number 2 of 4, its two counters are 4 and 1", 2),
        ([0, 1, None, 2, 3], "2 of 4 are there, then an event of type 160", 3),
        ([0, 1, 2, 3, 3], "expected the first one of at least 2", 5),
    ],
)
def test_fragments_out_of_order_are_named(order: list[int | None], reason: str, at: int, piece_events: int) -> None:
    table_map, fragments = _cut_insert()
    other = bytes(4) + b"\xa0" + bytes(4) + (19).to_bytes(4, "little") + bytes(6)
    events = [table_map, *(other if number is None else fragments[number] for number in order), xid()]
    log = _log([_group(1, [xid()]), _group(2, events), _group(3, [xid()])], piece_events=piece_events)
    with pytest.raises(CorruptError, match=reason) as raised:
        list(expanded(log.blocks()))
    assert raised.value.condition == "BINLOG_CORRUPT.BAD_EVENT"
    assert raised.value.at is not None
    assert raised.value.at.byte == log._extents[1][1 + at if at >= 0 else -1][0][0]


@pytest.mark.parametrize("block_groups", [1, 3])
@pytest.mark.parametrize("count", [1, 3])
def test_group_that_ends_within_fragments_is_named(count: int, block_groups: int) -> None:
    table_map, fragments = _cut_insert()
    log = _log([_group(1, [table_map, *fragments[:count]]), _group(2, [xid()])], block_groups=block_groups)
    with pytest.raises(CorruptError, match=f"{count} of 4 are there, then "):
        list(expanded(log.blocks()))


def test_fragments_whose_rest_is_not_there_yet_are_no_error() -> None:
    """The blocks of a live log end; the group is not whole, and comes again."""
    table_map, fragments = _cut_insert()
    whole = _log([_group(1, [xid()]), _group(2, [table_map, *fragments, xid()])], piece_events=2)
    blocks = list(whole.blocks())
    for count in range(len(blocks)):
        found = list(expanded(blocks[:count]))
        assert all(block.events["type"].max() != EventType.PARTIAL_ROW_DATA for block in found)
        assert sum(int(block.groups["ends"].sum()) for block in found) <= 1
        if found:
            assert found[-1].next_position in (whole.position(0), whole.position(1))
    assert [content[4] for _, _, content in _events(expanded(blocks))] == [162, 16, 162, 19, 23, 16]


@pytest.mark.parametrize(
    ("original", "reason"),
    [
        (query("SELECT " + "1" * 100), "they make no row event"),
        (xid() * 5, "they make no row event"),
    ],
)
def test_fragments_of_something_else_are_named(original: bytes, reason: str) -> None:
    log = _log([_group(1, [*encode_fragments(original, ORIGIN, 80), xid()])])
    with pytest.raises(CorruptError, match=reason):
        list(expanded(log.blocks()))


@pytest.mark.parametrize(
    ("claimed", "reason"), [(+1, "found"), (-1, "found"), (+(1 << 40), "found"), (-(1 << 40), "claims")]
)
def test_other_size_than_the_first_fragment_claims_is_named(claimed: int, reason: str) -> None:
    table_map, fragments = _cut_insert()
    size = (int.from_bytes(fragments[0][28:36], "little") + claimed) % (1 << 64)
    fragments[0] = fragments[0][:28] + size.to_bytes(8, "little") + fragments[0][36:]
    with pytest.raises(CorruptError, match=reason):
        list(expanded(_log([_group(1, [table_map, *fragments, xid()])]).blocks()))


def test_fragment_without_content_is_named() -> None:
    table_map, fragments = _cut_insert()
    last = fragments[-1][:28]
    last = last[:9] + len(last).to_bytes(4, "little") + last[13:]
    with pytest.raises(CorruptError, match="it contains no bytes of the original event"):
        list(expanded(_log([_group(1, [table_map, *fragments[:-1], last, xid()])]).blocks()))


def test_changed_log_is_named_by_an_index() -> None:
    table_map, fragments = _cut_insert()
    log = _log([_group(1, [table_map, *fragments, xid()])])
    (index,) = table_indexes(expanded(log.blocks()))
    places = (index.columns["extent_offset"] + index.columns["extent_size"] - 1).tolist()
    assert len(places) == 4
    for byte in (*places, int(index.columns["extent_offset"][0]) + 19):
        log.file[byte] ^= 1
        with pytest.raises(DataLossError, match=r"PAGE_REWRITTEN.*table shop.items"):
            index.load(log)
        log.file[byte] ^= 1
    assert len(index.load(log).events) == 1


def test_events_view_shows_the_whole_event_and_how_it_is_stored() -> None:
    table_map, fragments = _cut_insert()
    log = _log([_group(1, [table_map, *fragments, xid()])])
    rows = pa.Table.from_batches(list(EventsView().batches(expanded(log.blocks())))).to_pylist()
    assert [(row["type"], row["stored_as"]) for row in rows] == [
        ("mariadb_gtid", None),
        ("table_map", None),
        ("write_rows_v1", "partial_row_data"),
        ("xid", None),
    ]
    assert rows[2]["table"] == "items"


def test_rows_in_fragments_that_were_not_joined_are_refused() -> None:
    """Views read blocks that have been expanded; rows are not passed over by mistake."""
    table_map, fragments = _cut_insert()
    (block,) = _log([_group(1, [table_map, *fragments, xid()])]).blocks()
    with pytest.raises(UnsupportedError, match="it has not been expanded"):
        TableMaps().resolve(block)
