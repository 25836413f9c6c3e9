"""Targets that read single events: GTIDs, statements, table maps; and what is compressed."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.log_ddl import ddl_statements
from binlog_format.block import BLOCK_SIZE, GROUP_DTYPE
from binlog_format.classic.scratch import GtidSources
from binlog_format.errors import BinlogError
from binlog_format.events.gtid_events import parse_gtid_list, parse_previous_gtids, parse_xa_prepare_event
from binlog_format.events.layout import EVENT_HEADER_SIZE, EventType
from binlog_format.events.mysql_gtid_kernels import GTID_READ, GTID_SOURCES_FULL, read_mysql_gtid
from binlog_format.events.query import parse_query, parse_query_status
from binlog_format.events.table_map import parse_table_map
from binlog_format.gtids.gtid_history import gtid_of
from binlog_format.gtids.gtid_set import GtidSet
from binlog_format.kernels import as_bytes
from binlog_format.transactions.control_statements import read_control_statements
from binlog_format.transactions.expansion import expanded
from binlog_format.vendor import Vendor
from binlog_lab.event_encoding.event_encoding import Origin, compress_event, encode_fragments, encode_payload
from binlog_lab.event_encoding.gtid_events import parse_gtid_event
from tests.format.events.test_gtid import TAGGED, gtid_event, with_header
from tests.format.rows.plain_blocks import plain_block
from tests.fuzz.declaring import NUMBERS, Target, of_vendor, with_body
from tests.fuzz.seeds import EDITS, Edit, spoiled
from tests.fuzz.server_seeds import classic_parts, plain_parts, row_events, statements

if TYPE_CHECKING:
    from binlog_format.block import Block

ORIGIN = Origin(1_700_000_000, 1)
_DEFLATE_RATIO_MAX = 1032  # zlib's technical notes
_COMPRESSIBLE = (2, 23, 24, 25, 30, 31, 32)


def table_map(number: int, edits: list[Edit]) -> None:
    """A spoiled table map event."""
    seed = row_events()[number % len(row_events())]
    with contextlib.suppress(BinlogError):
        layout = parse_table_map(spoiled(seed.table_map, edits), seed.vendor)
        assert all(index < len(layout.columns) for index in layout.primary_key)


_PARSERS = {
    EventType.MARIADB_GTID: parse_gtid_event,
    EventType.MARIADB_GTID_LIST: parse_gtid_list,
    EventType.PREVIOUS_GTIDS: parse_previous_gtids,
    EventType.XA_PREPARE: parse_xa_prepare_event,
}


def gtid_events(number: int, edits: list[Edit]) -> None:
    """Spoiled events that Python reads: GTIDs of MariaDB, lists of GTIDs, XA_prepare."""
    head, events = classic_parts(number)
    for event in (*head, *events):
        parser = _PARSERS.get(EventType(event[4]))
        if parser is not None:
            content = event[:EVENT_HEADER_SIZE] + spoiled(event[EVENT_HEADER_SIZE:-4], edits)
            with contextlib.suppress(BinlogError):
                said = parser(content)
                if isinstance(said, GtidSet):
                    assert GtidSet.parse(str(said)) == said


_TAGGED = with_header(EventType.GTID_TAGGED, TAGGED)


def mysql_gtid(number: int, edits: list[Edit], count: int) -> None:
    """Spoiled GTID events of MySQL, of all three types; no byte is there before or after them."""
    seeds = [_TAGGED, gtid_event(None), *(event[:-4] for event in classic_parts(number)[1] if event[4] in (33, 34, 42))]
    sources = GtidSources()
    groups = np.zeros(1, dtype=GROUP_DTYPE)
    for copy in range(count):
        event = seeds[(number + copy) % len(seeds)]
        content = event[:EVENT_HEADER_SIZE] + spoiled(event[EVENT_HEADER_SIZE:], edits[copy % len(edits) :])
        data = as_bytes(content)
        code = GTID_SOURCES_FULL
        for _ in range(2):
            code = read_mysql_gtid(data, 0, len(data), groups, 0, sources.keys, sources.slots, sources.counts)
            if code != GTID_SOURCES_FULL:
                break
            sources.grow()
        assert code != GTID_SOURCES_FULL
        if code == GTID_READ:
            gtid = gtid_of(groups[0], sources.known())
            assert (gtid is None) == (content[4] == EventType.ANONYMOUS_GTID)


def query_events(number: int, edits: list[Edit], vendor: Vendor) -> None:
    """Spoiled Query events: status variables, texts, marks of transactions, DDL and what it does to tables."""
    event = statements()[number % len(statements())]
    content = with_body(event, spoiled(event[EVENT_HEADER_SIZE:], edits))
    with contextlib.suppress(BinlogError):
        assert len(parse_query(content).text) <= len(content)
        parse_query_status(content)
    block = of_vendor(plain_block([[content]]), vendor)
    history = SchemaHistory()
    with contextlib.suppress(BinlogError):
        assert len(list(ddl_statements(block))) <= 1
        history.observe(block)
        for statement in history.statements:
            history.edges(statement.database, "t")
    with contextlib.suppress(BinlogError):
        assert len(list(read_control_statements(block).of_group(0))) <= 1


def _check_expanded(block: Block) -> int:
    # Plain events lie in the block's data; gives how many bytes that are.
    plain = 0
    for part in expanded([block]):
        plain += len(part.data)
        events = part.events
        assert len(part.data) <= 3 * BLOCK_SIZE + len(block.data)
        assert (events["start"] >= 0).all()
        assert (events["start"] + events["size"] <= len(part.data)).all()
        assert int(part.groups["event_count"].sum()) == len(events)
        assert part.origins is None or len(part.origins) == len(events)
    return plain


def expansion(number: int, edits: list[Edit]) -> None:
    """Groups with spoiled events, compressed ones among them: nothing gives more than it may."""
    vendor, groups = plain_parts(number)
    events = [event for group in groups for event in group]
    stored = [row for row, event in enumerate(events) if event[4] in (40, *range(165, 172))]
    row = stored[number % len(stored)] if stored else number % len(events)
    content = with_body(events[row], spoiled(events[row][EVENT_HEADER_SIZE:], edits))
    group = [*events[:row], content]
    with contextlib.suppress(BinlogError):
        plain = _check_expanded(of_vendor(plain_block([group]), vendor))
        assert content[4] == EventType.TRANSACTION_PAYLOAD or plain <= (_DEFLATE_RATIO_MAX + 1) * len(content) + 40_000


def compressed(number: int, edits: list[Edit], outer: list[Edit], is_payload: bool, is_zstd: bool) -> None:
    """Spoiled events that are then compressed, and spoiled again."""
    vendor, groups = plain_parts(number)
    plain = [event for group in groups for event in group if event[4] not in (40, *range(165, 172))]
    if is_payload:
        inner = b"".join(plain)
        stored = encode_payload([spoiled(inner, edits)], ORIGIN, compressed=is_zstd)
    else:
        chosen = [event for event in plain if event[4] in _COMPRESSIBLE] or [statements()[0]]
        event = chosen[number % len(chosen)]
        content = compress_event(event)
        stored = with_body(content, spoiled(content[EVENT_HEADER_SIZE:], edits))
    stored = with_body(stored, spoiled(stored[EVENT_HEADER_SIZE:], outer)) if len(outer) > 1 else stored
    with contextlib.suppress(BinlogError):
        _check_expanded(of_vendor(plain_block([[stored]]), vendor))


def fragments(number: int, edits: list[Edit], threshold: int, damaged: int, number_first: bool) -> None:
    """Row events in fragments, one of which is spoiled or left out: nothing gives more bytes than there are."""
    vendor, groups = plain_parts(number)
    plain = [event for group in groups for event in group if event[4] not in (40, *range(165, 173))]
    stored = []
    for event in plain:
        is_cut = event[4] in (23, 24, 25) and len(event) > threshold
        stored += encode_fragments(event, ORIGIN, threshold, number_first=number_first) if is_cut else [event]
    cut = [row for row, event in enumerate(stored) if event[4] == EventType.PARTIAL_ROW_DATA]
    if cut:
        row = cut[damaged % len(cut)]
        content = spoiled(stored[row][EVENT_HEADER_SIZE:], edits)
        stored[row : row + 1] = [with_body(stored[row], content)] if content else []
    with contextlib.suppress(BinlogError):
        plain_size = _check_expanded(of_vendor(plain_block([stored]), vendor))
        assert plain_size <= sum(map(len, stored))


TARGETS = {
    "table_map": Target(table_map, (NUMBERS, EDITS)),
    "gtid_events": Target(gtid_events, (NUMBERS, EDITS)),
    "mysql_gtid": Target(mysql_gtid, (NUMBERS, EDITS, st.integers(1, 80))),
    "query_events": Target(query_events, (NUMBERS, EDITS, st.sampled_from(Vendor))),
    "expansion": Target(expansion, (NUMBERS, EDITS)),
    "fragments": Target(fragments, (NUMBERS, EDITS, st.integers(41, 400), NUMBERS, st.booleans())),
    "compressed": Target(compressed, (NUMBERS, EDITS, EDITS, st.booleans(), st.booleans())),
}
