"""Changes of a table's definition that messages show, and that change rows which no message is about: `check_existing`.

An ALTER TABLE of a key, or to fewer digits, is in no topic of rows: only the messages after it are others.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import SchemaError
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.names import folded_name, folded_names
from binlog_streaming.settings import Mode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from binlog_connector.kafka_decode.row_changes import ReceivedChanges
    from binlog_format.events.table_map import Column
    from binlog_format.kernels import Int64s
    from binlog_streaming.settings import TableRule
    from binlog_streaming.topic_tables.batch import ChangePlace, TableState

_INTEGERS = {ColumnType.SHORT, ColumnType.LONG, ColumnType.LONGLONG}
_FLOATS = {ColumnType.FLOAT: 7, ColumnType.DOUBLE: 15}
ANEW = (
    'Publish anew from the end of the log (startingOffsets = "latest"), under another topic_prefix, take initial rows '
    "(binlog-stream snapshot), and begin the table anew from those topics"
)


def check_existing(name: object, rule: TableRule, changes: Sequence[ReceivedChanges], known: TableState | None) -> None:
    """See that no message shows that rows which are not in *changes* have other keys or values than before.

    Args:
        name: Of the table.
        known: State of the table before; None: there are no rows.

    Raises:
        SchemaError: `SCHEMA_CHANGED`: they have.
    """
    if set(rule.modes) == {Mode.CHANGELOG}:
        return  # its rows stay as they were written
    forms = _in_order(changes)
    if not rule.keys:
        before = [] if known is None or known.keys is None else [known.keys]
        _check_keys(name, [*before, *map(key_columns, forms)])
    digits = {id(form): fraction_digits(form) for form in changes}
    _check_digits(name, [{} if known is None else known.digits, *(digits[id(form)] for form in forms)])


def _in_order(changes: Sequence[ReceivedChanges]) -> list[ReceivedChanges]:
    # As they follow each other in the log: a definition may be changed, and changed back.
    places = _ordering([some.places for some in changes])
    owners = np.repeat(np.arange(len(changes)), [len(some.rows) for some in changes])[places]
    begins = np.flatnonzero(np.diff(owners, prepend=-1))
    return [changes[owner] for owner in owners[begins].tolist()]


def _ordering(places: Sequence[Int64s]) -> Int64s:
    return np.lexsort(np.concatenate(places).T[::-1])


def _check_keys(name: object, keys: Iterable[tuple[str, ...]]) -> None:
    for before, now in pairwise(keys):
        if folded_names(before) != folded_names(now):
            raise SchemaError(
                "SCHEMA_CHANGED",
                f"{name}: keys of messages had {_joined(before)} and have {_joined(now)} now: which of the rows from "
                "before they are about is not known",
                hint=f"{ANEW}. Or begin it anew with keys (tables.keys), if some columns tell its rows apart before "
                "and after, those of both keys among them",
            )


def _check_digits(name: object, digits: Iterable[dict[str, int]]) -> None:
    last: dict[str, int] = {}
    for now in digits:
        fewer = [column for column, count in now.items() if count < last.get(column, count)]
        if fewer:
            raise SchemaError(
                "SCHEMA_CHANGED",
                f"{name}: column {fewer[0]} has fewer digits after the point than in earlier messages: in rows that no "
                "message is about the server may have rounded it",
                hint=ANEW,
            )
        last = now


def _joined(columns: tuple[str, ...]) -> str:
    return ", ".join(columns) or "no column"


def key_columns(changes: ReceivedChanges) -> tuple[str, ...]:
    """Columns of the keys of messages."""
    return tuple(str(changes.layout.columns[index].name) for index in changes.layout.primary_key)


def fraction_digits(changes: ReceivedChanges) -> dict[str, int]:
    """Digits after the point, about, of columns of which messages tell them, by their folded names."""
    found = ((folded_name(str(column.name)), _digits(column)) for column in changes.layout.columns)
    return {name: digits for name, digits in found if digits is not None}


def _digits(column: Column) -> int | None:
    if column.type in _INTEGERS:
        return 0
    if column.type is ColumnType.NEWDECIMAL:
        return column.metadata >> 8
    return column.metadata if column.type is ColumnType.DATETIME2 else _FLOATS.get(column.type)


def last_place(changes: ReceivedChanges) -> ChangePlace:
    """The last place of a change, as `TableState` has it."""
    places = np.column_stack([changes.places, changes.ops])
    return tuple(places[_ordering([places])[-1]].tolist())
