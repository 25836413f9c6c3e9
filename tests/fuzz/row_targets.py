"""Targets that read rows: real row events, rows of any layout, JSON."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from binlog_format.errors import BinlogError
from binlog_format.events.layout import EVENT_HEADER_SIZE, EventType
from binlog_format.events.table_map_layout import CHARACTER_TYPES, NUMERIC_TYPES, OLD_TEMPORAL_TYPES, ColumnType
from binlog_format.kernels import as_bytes
from binlog_format.rows.column_types import BadValueError
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding, TimeType, ZeroDates
from binlog_format.rows.images import Images, read_images
from binlog_format.rows.json.json_columns import document_texts
from binlog_format.rows.json.json_diffs import changed_document
from binlog_format.rows.json.json_document import BadJsonError
from binlog_format.rows.json.variant_layout import VARIANT
from binlog_format.rows.json.variants import VariantError, texts_of, variants_of
from binlog_format.rows.table_events import TableMaps
from tests.format.rows.plain_blocks import plain_block
from tests.fuzz.declaring import NUMBERS, Target, of_vendor, with_body
from tests.fuzz.made_rows import MADE_TABLES, MadeTable
from tests.fuzz.seeds import EDITS, JSON_CHANGES, Edit, mysql_documents, spoiled
from tests.fuzz.server_seeds import RowEvent, row_events

if TYPE_CHECKING:
    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout

DECODINGS = (
    DEFAULT_DECODING,
    Decoding(replace_invalid_text=True, time_type=TimeType.MICROS),
    Decoding(replace_invalid_text=True, zero_dates=ZeroDates.ERROR),
)
TEXT_TYPES = CHARACTER_TYPES - {ColumnType.VECTOR}
LABEL_TYPES = (ColumnType.ENUM, ColumnType.SET)
_NO_EDITS: list[Edit] = []
_SOME_EDITS = st.one_of(st.just(_NO_EDITS), st.just(_NO_EDITS), EDITS)
_ROW_TYPES = (20, 21, 22, 23, 24, 25, 30, 31, 32, 39)
_BYTES_OF_TEXT = 64
"""What a byte of a row may become in memory: a place of 4 bytes for each bit of a NULL bitmap."""


def completed(layout: TableLayout, digits: int) -> TableLayout:
    """*layout* with what a schema states where a table map leaves it open; of old temporal columns the digits."""
    columns = []
    for column in layout.columns:
        if column.type in OLD_TEMPORAL_TYPES and column.declared is None:
            column = replace(column, declared=f"{column.type.name.lower()}({digits})")
        if column.type in NUMERIC_TYPES and column.unsigned is None:
            column = replace(column, unsigned=digits % 2 == 0)
        if column.type in TEXT_TYPES and column.charset is None:
            column = replace(column, charset=("utf8mb4", "binary", "sjis", "utf16")[digits % 4])
        if column.type in LABEL_TYPES and column.enum_values is None:
            column = replace(column, charset="utf8mb4", enum_values=("a", "b", "")[: digits % 4])
        columns.append(column)
    return replace(layout, columns=tuple(columns))


def _read_block(block: Block, digits: int, decoding: Decoding) -> None:
    """The rows of all tables of a block, as columns."""
    with contextlib.suppress(BinlogError):
        for table in TableMaps().resolve(block):
            with contextlib.suppress(BinlogError):
                layout = completed(table.layout, digits)
                images = read_images(block.data, block.events, table.events, layout, decoding=decoding)
                assert images.cells.nbytes <= 8 * _BYTES_OF_TEXT * len(block.data)
                _read_columns(block, images)


def _read_columns(block: Block, images: Images) -> None:
    """Each value starts in its own event, or is empty and is at its end; or is in what partial values became."""
    events = block.events[images.table["event"]]
    ends = events["start"] + events["size"]
    for column in range(len(images.layout.columns)):
        places = images.column_offsets(column)
        is_there = places >= 0
        is_own = is_there & (places < len(block.data))
        assert (places[is_own] >= events["start"][is_own]).all()
        assert (places[is_own] <= ends[is_own]).all()
        assert (places[is_there] <= len(images.data)).all()
        with contextlib.suppress(BinlogError):
            array = images.column(column)
            array.validate(full=True)
            assert len(array) == len(images)


def row_images(number: int, edits: list[Edit], map_edits: list[Edit], digits: int, decoding: Decoding) -> None:
    """Real row events of either vendor, spoiled, after table maps that may be spoiled, too."""
    seed = row_events()[number % len(row_events())]
    table_map = with_body(seed.table_map, spoiled(seed.table_map[EVENT_HEADER_SIZE:], map_edits))
    event = with_body(seed.event, spoiled(seed.event[EVENT_HEADER_SIZE:], edits))
    # Nothing comes after the event: a kernel that goes on there has nothing to read.
    _read_block(of_vendor(plain_block([[table_map, event]]), seed.vendor), digits, decoding)


def row_versions(number: int, kind: int, edits: list[Edit], decoding: Decoding) -> None:
    """Real row events that claim to be of another type and version, two of them in a block."""
    seed = row_events()[number % len(row_events())]
    body = seed.event[EVENT_HEADER_SIZE:]
    if kind >= EventType.WRITE_ROWS_V2 and seed.event[4] < EventType.WRITE_ROWS_V2:
        body = body[:8] + b"\2\0" + body[8:]
    event = with_body(seed.event, spoiled(body, edits), kind)
    block = of_vendor(plain_block([[seed.table_map, seed.event, event]]), seed.vendor)
    _read_block(block, 0, decoding)


def _partial(number: int) -> RowEvent:
    seeds = [seed for seed in row_events() if seed.event[4] == EventType.PARTIAL_UPDATE_ROWS]
    return seeds[number % len(seeds)]


def partial_updates(number: int, edits: list[Edit]) -> None:
    """Spoiled partial updates of JSON columns."""
    seed = _partial(number)
    event = with_body(seed.event, spoiled(seed.event[EVENT_HEADER_SIZE:], edits))
    _read_block(of_vendor(plain_block([[seed.table_map, event]]), seed.vendor), 0, DEFAULT_DECODING)


def made_rows(table: MadeTable, edits: list[Edit], digits: int, decoding: Decoding) -> None:
    """Rows of a table of any columns, of any bytes."""
    event = with_body(table.event, spoiled(table.event[EVENT_HEADER_SIZE:], edits))
    _read_block(of_vendor(plain_block([[table.table_map, event]]), table.vendor), digits, decoding)


def json_documents(number: int, edits: list[Edit], any_bytes: bytes) -> None:
    """Spoiled JSON documents, and any bytes, to text."""
    documents = mysql_documents()
    for content in (spoiled(documents[number % len(documents)], edits), any_bytes):
        data = as_bytes(len(content).to_bytes(4, "little") + content)
        with contextlib.suppress(BadValueError):
            texts, _ = document_texts(data, np.zeros(1, dtype=np.int32), 4)
            assert len(texts) <= 16 * len(content) + 16


def json_changes(number: int, edits: list[Edit], edits_of_changes: list[Edit]) -> None:
    """Spoiled changes to spoiled JSON documents."""
    documents = mysql_documents()
    document = spoiled(documents[number % len(documents)], edits)
    changes = spoiled(JSON_CHANGES, edits_of_changes)
    for part in (document, documents[number % len(documents)]):
        with contextlib.suppress(BadJsonError):
            assert len(changed_document(part, changes)) <= 4 * (len(part) + len(changes)) + 16


def variants(number: int, edits: list[Edit], edits_of_keys: list[Edit]) -> None:
    """Spoiled variants to text, and spoiled text to variants."""
    text = _TEXTS[number % len(_TEXTS)]
    metadata, value = variants_of(pa.array([text])).flatten()
    parts = {"metadata": spoiled(metadata[0].as_py(), edits_of_keys), "value": spoiled(value[0].as_py(), edits)}
    with contextlib.suppress(VariantError):
        texts_of(pa.array([parts], VARIANT))
    with contextlib.suppress(VariantError):
        again = variants_of(pa.array([spoiled(text.encode(), edits).decode("utf-8", "replace")]))
        assert variants_of(texts_of(again)).is_valid().true_count == 1


_TEXTS = (
    '{"a": {"b": [1, -2.50, 1e300, 12345678901234567890], "": "é"}, "long": "' + "x" * 70 + '"}',
    "[" + "[1, null, true, false]," * 100 + "70000, 5000000000]",
)
_DIGITS = st.integers(0, 7)
_DECODINGS = st.sampled_from(DECODINGS)

TARGETS = {
    "row_images": Target(row_images, (NUMBERS, EDITS, _SOME_EDITS, _DIGITS, _DECODINGS)),
    "row_versions": Target(row_versions, (NUMBERS, st.sampled_from(_ROW_TYPES), _SOME_EDITS, _DECODINGS)),
    "partial_updates": Target(partial_updates, (NUMBERS, EDITS)),
    "made_rows": Target(made_rows, (MADE_TABLES, _SOME_EDITS, _DIGITS, _DECODINGS)),
    "json_documents": Target(json_documents, (NUMBERS, EDITS, st.binary(max_size=100))),
    "json_changes": Target(json_changes, (NUMBERS, EDITS, EDITS)),
    "variants": Target(variants, (NUMBERS, EDITS, EDITS)),
}
