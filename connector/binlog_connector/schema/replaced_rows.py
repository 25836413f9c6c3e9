"""Statements as readers of rows need them: `row_statements(block)`, with each REPLACE whose rows a log tells in part.

MariaDB runs a REPLACE as an update where only one row is in its way (sql/sql_insert.cc, `write_record`), and logs it as
one: columns that the statement does not name get their defaults. With `binlog_row_image=MINIMAL` or `NOBLOB` the image
lacks these columns, as if they had kept their values; and the image of an INSERT ... ON DUPLICATE KEY UPDATE, where
they do keep them, has the same columns. The statement's text alone tells which it was (Annotate_rows). That of an
UPDATE has others in most cases: `_partial_updates`. MySQL logs the row that went and the one that came.
"""

from __future__ import annotations

import heapq
import re
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.log_ddl import all_statements, statement_of_event
from binlog_connector.schema.operations import ChangeRows
from binlog_connector.schema.parsing.lexer import MODE_ANSI_QUOTES
from binlog_connector.schema.parsing.row_statements import parse_statement
from binlog_connector.schema.parsing.session import StatementSession
from binlog_format.errors import BinlogError
from binlog_format.events.layout import EventType
from binlog_format.events.table_map import parse_table_map
from binlog_format.events.table_map_layout import TABLE_BODY_OFFSET
from binlog_format.names import folded_name
from binlog_format.position import Position
from binlog_format.rows.declared.completion import LayoutCompletion
from binlog_format.rows.table_events import table_maps_of
from binlog_format.vendor import MARIADB_KEYED_REPLACES_SINCE, MARIADB_PARTIAL_REPLACES_SINCE, Vendor
from binlog_format.views.events import StatementTexts, text_places, texts_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from binlog_connector.schema.log_ddl import DdlStatement, ServerRuns
    from binlog_format.block import Block
    from binlog_format.kernels import Bytes, Indices, Int32s, Int64s, Mask
    from binlog_format.rows.decoding import TableSchemas

_BEFORE = r"(?is)^(?:\s|/\*[^!M].*?\*/|(?:-- |#)[^\n]*\n)*"
"""Spaces and comments before the first word of a statement."""
_KEEPS = _BEFORE + r"(?:UPDATE|INSERT)\b"
"""Statements that keep the columns that they do not name."""
_KEEPS_FIRST = _KEEPS + r"(?:\s+(?:LOW_PRIORITY|HIGH_PRIORITY|DELAYED|IGNORE|INTO)\b)*\s*"
"""The same, up to the first table."""
_REPLACES = _BEFORE + r"(?:REPLACE\b|LOAD\b.*\bREPLACE\b)"

_TWO_BYTES = 0xFC
_ALL = 0xFF


def row_statements(
    block: Block, server_runs: ServerRuns | None = None, schemas: TableSchemas | None = None
) -> Iterator[tuple[int, str, DdlStatement]]:
    """Those of `all_statements`, and one of type ANNOTATE_ROWS for each that set columns which its rows lack.

    Args:
        block: Of plain events.
        server_runs: Of the log; see `all_statements`.
        schemas: Definitions of tables, which tell generated columns: no statement names these. None: no column is known
            to be one.
    """
    return heapq.merge(all_statements(block, server_runs), _replacing(block, schemas), key=itemgetter(0))


def _replacing(block: Block, schemas: TableSchemas | None) -> Iterator[tuple[int, str, DdlStatement]]:
    """Statements that may be a REPLACE with rows that are not whole: one for each table and text of a group."""
    if block.vendor is not Vendor.MARIADB:
        return
    replacing, usual = _partial_updates(block)
    inserts = _partial_inserts_of_open_group(block)
    if len(replacing) + len(usual) + len(inserts) == 0:
        return
    events = block.events
    codes, texts = StatementTexts().of_rows(block)
    usual = usual[_says_replace(texts, codes[usual])]
    rows = np.sort(np.concatenate([replacing, usual, inserts]))
    if len(rows) == 0:
        return
    maps = table_maps_of(block, rows)
    # Of a group that comes in pieces, the first piece has the text, and is asked about its inserts too.
    is_told = (codes[rows] >= 0) | block.groups["begins"][events["group"][rows]]
    firsts = np.unique(np.stack([events["group"][rows], codes[rows], maps]), axis=1, return_index=True)[1]
    firsts = np.sort(firsts[(is_told & (maps >= 0))[firsts]])
    rows, maps = rows[firsts], maps[firsts]
    places = text_places(block)[:2]
    names = [texts_at(block.data, place[:, maps]) for place in places]
    texts = pc.if_else(codes[rows] >= 0, texts.take(np.maximum(codes[rows], 0)), "") if len(texts) else None
    may_replace = np.isin(rows, usual)
    if texts is None:
        may_replace[:] = True
    else:
        may_replace |= _may_replace(texts, (names[0], names[1]), _is_alone(block, maps, places))
    for number in np.flatnonzero(may_replace).tolist():
        if schemas is not None and _lacks_generated_alone(block, int(rows[number]), int(maps[number]), schemas):
            continue
        table = TableName(*(part[number].as_py() for part in names))
        text = "" if texts is None else texts[number].as_py()
        told = statement_of_event(block, events[rows[number]], text)
        kind, changed = EventType.ANNOTATE_ROWS, ChangeRows((table,))
        yield int(rows[number]), "REPLACE", replace(told, database=table.database, event_type=kind, rows=changed)


def _lacks_generated_alone(block: Block, row: int, table_map: int, schemas: TableSchemas) -> bool:
    """True if the image lacks only columns that are known to be generated: a REPLACE cannot name these."""
    event = block.events[table_map]
    start, size = int(event["start"]), int(event["size"])
    position = Position.of(block.groups[int(event["group"])])
    try:
        table_map_event = block.data[start : start + size].tobytes()
        layout = parse_table_map(table_map_event, block.vendor, block.server_version)
        layout = schemas.completed(layout, position, needs_generated=True)
    except BinlogError:
        return False  # who reads its rows names it
    if not layout.completion:
        return False
    is_update = block.events["type"][row] == EventType.UPDATE_ROWS_V1
    _, bitmaps = _bitmaps(block, np.array([row]), 2 if is_update else 1)
    is_there = np.unpackbits(bitmaps[-1, :, 0], bitorder="little")
    columns = LayoutCompletion.from_json(layout.completion).columns
    return all(is_there[index] or column.generated for index, column in enumerate(columns))


def _says_replace(texts: pa.Array, codes: Int32s) -> Mask:
    """True where a statement is a REPLACE by its text; *codes* are numbers of texts, and -1 where the log has none."""
    says = np.append(np.asarray(pc.match_substring_regex(texts, _REPLACES), dtype=np.bool_), False)
    found: Mask = says[codes]
    return found


def _may_replace(texts: pa.Array, tables: tuple[pa.Array, pa.Array], is_alone: Mask) -> Mask:
    """True where the statement that made a row event may have been a REPLACE.

    What a trigger or a function does has the text of the statement that called it, and servers let it change no table
    that this statement uses (error 1442): a statement that uses the table itself is what changed it.

    Args:
        texts: Of the statements, empty where the log has none.
        tables: Names of their databases, and their own.
        is_alone: Those of whose name the group changes no table in another database.
    """
    keeps = np.zeros(len(texts), dtype=np.bool_)
    names = np.array([part.to_pylist() for part in tables])
    for database, table in np.unique(names, axis=1).T.tolist():
        of_table = np.flatnonzero((names == [[database], [table]]).all(axis=0))
        own = texts.take(of_table)
        qualified = rf"{_KEEPS_FIRST}(?:{_spelled(database)})\s*\.\s*(?:{_spelled(table)})(?:[^\w$.]|$)"
        bare = rf"{_KEEPS_FIRST}(?:{_spelled(table)})\s*(?:[^\w$.\s]|\s[^.\s]|$)"
        keeps[of_table] = np.asarray(pc.match_substring_regex(own, qualified))
        keeps[of_table] |= np.asarray(pc.match_substring_regex(own, bare)) & is_alone[of_table]
    others = np.flatnonzero(~keeps & np.asarray(pc.match_substring_regex(texts, _KEEPS)))
    for number in others.tolist():
        keeps[number] = _uses(texts[number].as_py(), TableName(*names[:, number].tolist()), bool(is_alone[number]))
    return ~keeps


def _is_alone(block: Block, maps: Indices, places: Int64s) -> Mask:
    """True for table maps whose group has none of a table with this name in another database."""
    every = np.flatnonzero(block.events["type"] == EventType.TABLE_MAP)
    names = [pc.utf8_lower(texts_at(block.data, place[:, every])).dictionary_encode() for place in places]
    database, table = (np.asarray(coded.indices).astype(np.int64) for coded in names)
    owners = block.events["group"][every] * np.int64(len(names[1].dictionary)) + table
    found, counts = np.unique(np.unique(np.stack([owners, database]), axis=1)[0], return_counts=True)
    is_alone: Mask = counts[np.searchsorted(found, owners[np.searchsorted(every, maps)])] == 1
    return is_alone


def _spelled(name: str) -> str:
    """Pattern for a name as statements have it, with quotes and without."""
    return "|".join(
        [*(quote + re.escape(name.replace(quote, 2 * quote)) + quote for quote in ("`", '"')), re.escape(name)]
    )


def _uses(text: str, table: TableName, is_alone: bool) -> bool:
    """True if a statement changes rows of *table* itself: one of several tables, or with comments between its words."""
    for sql_mode in (0, MODE_ANSI_QUOTES):
        for operation in parse_statement(text, StatementSession(sql_mode=sql_mode, vendor=Vendor.MARIADB)):
            for name in operation.names or () if isinstance(operation, ChangeRows) else ():
                is_database = folded_name(name.database) == folded_name(table.database) if name.database else is_alone
                if is_database and folded_name(name.table) == folded_name(table.table):
                    return True
    return False


def _partial_updates(block: Block) -> tuple[Indices, Indices]:
    """Updates whose new image lacks columns.

    Returns:
        Those whose images have the columns that a REPLACE logs, and seldom an UPDATE. And all others: an UPDATE, or a
        REPLACE that does not name all columns of the key.
    """
    rows = np.flatnonzero(block.events["type"] == EventType.UPDATE_ROWS_V1)
    rows, (before, after) = _bitmaps(block, rows, 2)
    is_partial = (after != _ALL).any(axis=0)
    from_whole = (before == _ALL).all(axis=0)
    has_old_ones = (before & ~after == 0).all(axis=0)
    version = block.server_version
    if version is None:
        is_replacing = has_old_ones | from_whole
    elif version >= MARIADB_KEYED_REPLACES_SINCE:
        is_replacing = has_old_ones
    else:
        is_replacing = from_whole if version >= MARIADB_PARTIAL_REPLACES_SINCE else np.zeros_like(from_whole)
    return rows[is_partial & is_replacing], rows[is_partial & ~is_replacing]


def _partial_inserts_of_open_group(block: Block) -> Indices:
    """Inserts whose image lacks columns, in a group that goes on after the block: updates may follow without a text."""
    if len(block.groups) == 0 or block.groups["ends"][-1]:
        return np.empty(0, dtype=np.int64)
    is_open = block.events["group"] == len(block.groups) - 1
    rows = np.flatnonzero(is_open & (block.events["type"] == EventType.WRITE_ROWS_V1))
    rows, (new,) = _bitmaps(block, rows, 1)
    found: Indices = rows[(new != _ALL).any(axis=0)]
    return found


def _bitmaps(block: Block, rows: Indices, count: int) -> tuple[Indices, Bytes]:
    """The bitmaps of columns in the heads of row events, byte by byte; bits that are no column are set.

    Returns:
        The rows of those with whole heads, and their bitmaps: shape (*count*, bytes, events).
    """
    data, starts, sizes = block.data, block.events["start"][rows], block.events["size"][rows]
    fits = sizes >= TABLE_BODY_OFFSET + 3
    rows, starts, sizes = rows[fits], starts[fits], sizes[fits]
    heads = starts + TABLE_BODY_OFFSET
    columns = data[heads].astype(np.int64)
    is_wide = columns == _TWO_BYTES
    columns = np.where(is_wide, data[heads + 1] | data[heads + 2].astype(np.int64) << 8, columns)
    places = heads + np.where(is_wide, 3, 1)
    widths = (columns + 7) // 8
    fits = places + widths * count <= starts + sizes
    rows, columns, places, widths = rows[fits], columns[fits], places[fits], widths[fits]
    found = np.full((count, int(widths.max(initial=0)), len(rows)), _ALL, dtype=np.uint8)
    for byte in range(found.shape[1]):
        has = byte < widths
        used = (1 << np.clip(columns[has] - byte * 8, 0, 8)) - 1
        for number in range(count):
            read = data[places[has] + number * widths[has] + byte]
            found[number, byte, has] = read | (_ALL & ~used)
    return rows, found
