"""Targets that make Arrow columns of single values, and texts of all character sets."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from binlog_connector.schema.parsing.session import decode_statement
from binlog_format.errors import BinlogError
from binlog_format.events.charset_layout import CODECS, UPPER_HALVES
from binlog_format.events.charsets import decode_text
from binlog_format.events.table_map import parse_table_map
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.kernels import as_bytes
from binlog_format.rows.column_types import value_widths
from binlog_format.rows.columns import column_array
from binlog_format.rows.decoding import Decoding
from binlog_format.rows.json.json_rows import json_lines
from binlog_format.vendor import Vendor
from tests.format.rows.columns import make_column, read
from tests.fuzz.declaring import Target
from tests.fuzz.made_rows import COLUMNS, VALUES, MadeColumn, table_map_of, value_bytes
from tests.fuzz.row_targets import DECODINGS, completed

CHARSETS = sorted({*CODECS, *UPPER_HALVES} - {"binary"})
_DECLARED = {
    ColumnType.STRING: ("uuid", "inet4", "inet6", "char(3)"),
    ColumnType.VARCHAR: ("vector(3)", "varchar(3)"),
}


def column_values(
    made: MadeColumn, vendor: Vendor, values: list[bytes | None], choice: int, decoding: Decoding
) -> None:
    """Any values of a column of any type, the last of which ends where the data end."""
    with contextlib.suppress(BinlogError):
        layout = completed(parse_table_map(table_map_of([made], vendor), vendor), choice % 7)
        column = layout.columns[0]
        names = _DECLARED.get(column.type, ())
        if choice < len(names):
            layout = replace(layout, columns=(replace(column, declared=names[choice]),))
        width = int(value_widths(layout)[0])
        data, offsets = b"", []
        for value in values:
            offsets.append(-1 if value is None else len(data))
            data += b"" if value is None else value_bytes(width, value)
        array = column_array(layout, 0, as_bytes(data), np.array(offsets, dtype=np.int32), decoding=decoding)
        array.validate(full=True)
        assert len(array) == len(values)
        json_lines(pa.RecordBatch.from_arrays([array], names=["value"]), {})


def charset_texts(charset: str, texts: list[bytes]) -> None:
    """Any bytes as texts of each character set: the kernels give what plain Python gives."""
    column = make_column(ColumnType.VARCHAR, b"\xff\xff", charset=charset)
    expected: list[str] | None = []
    for text in texts:
        decode_statement(text, charset)
        try:
            decoded = decode_text(text, charset)
        except UnicodeDecodeError:
            expected = None
            break
        if expected is not None:
            expected.append(decoded)
    values = [len(text).to_bytes(2, "little") + text for text in texts]
    replaced = read(column, values, Decoding(replace_invalid_text=True))
    assert len(replaced) == len(texts)
    if expected is not None:
        assert replaced == expected
        assert read(column, values) == expected
        return
    try:
        found = read(column, values)
    except BinlogError:
        return
    raise AssertionError(f"the column has {found!r}, plain Python reads no {charset} there")


_TEXTS = st.one_of(
    st.binary(max_size=40),
    st.builds(
        lambda text, codec: text.encode(codec, "ignore"),
        st.text(max_size=12),
        st.sampled_from(["utf-8", "utf-16-be", "utf-16-le", "utf-32-be", "gb18030", "euc_jp", "cp932"]),
    ),
    VALUES,
)

TARGETS = {
    "column_values": Target(
        column_values,
        (
            COLUMNS,
            st.sampled_from(Vendor),
            st.lists(st.none() | VALUES, min_size=1, max_size=12),
            st.integers(0, 9),
            st.sampled_from(DECODINGS),
        ),
    ),
    "charset_texts": Target(charset_texts, (st.sampled_from(CHARSETS), st.lists(_TEXTS, min_size=1, max_size=5))),
}
