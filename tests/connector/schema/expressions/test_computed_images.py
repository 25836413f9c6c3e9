"""Generated columns of row images whose logged values tell nothing: they get those that are computed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from binlog_connector.schema.expressions.computing import with_computed_values
from binlog_format.gtids.gtid import Gtid
from binlog_format.rows.declared.completion import ColumnCompletion, LayoutCompletion
from binlog_format.rows.declared.declared_types import Generated
from binlog_format.rows.decoding import Decoding
from binlog_format.rows.images import Images, read_images
from binlog_format.views.filters import GroupFilter, TableFilter
from binlog_format.views.selection import Selection
from binlog_lab.event_encoding.event_encoding import Origin
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec
from tests.format.views.made_log import MadeGroup, MadeLog, xid

ORIGIN = Origin(1_700_000_000, 1)
TABLE = TableSpec("shop", "t", (ColumnSpec("i", "int"), *(ColumnSpec(name, "int", nullable=True) for name in "gh")))
INSERTED, BEFORE, AFTER = (1, None, None), (1, 2, 4), (5, 2, 4)
NO_EXPRESSION: tuple[str, ...] = ()


def images(kind: Generated, g: tuple[str, ...], h: tuple[str, ...]) -> Images:
    """Images of an insert and an update, as a replica logs them."""
    encoder = TableEncoder(TABLE, 1)
    events = [
        encoder.table_map(ORIGIN),
        *encoder.insert([INSERTED], ORIGIN),
        *encoder.update([(BEFORE, AFTER)], ORIGIN),
    ]
    (block,) = MadeLog([MadeGroup(Gtid(0, 1, 1), 1_700_000_000, [*events, xid()])]).blocks()
    (touched,) = Selection(TableFilter(), GroupFilter()).of(block)
    declared = [("i", None, NO_EXPRESSION), ("g", kind, g), ("h", kind, h)]
    completion = LayoutCompletion(
        tuple(
            ColumnCompletion(name, "int", False, generated=how, sources=("i",), expression=words)
            for name, how, words in declared
        )
    )
    columns = tuple(
        replace(column, name=name) for column, (name, _, _) in zip(touched.layout.columns, declared, strict=True)
    )
    layout = replace(touched.layout, columns=columns, completion=completion.to_json())
    return read_images(
        block.data, block.events, touched.events, layout, decoding=Decoding(computes=with_computed_values)
    )


def test_values_that_a_replica_logs_are_computed() -> None:
    """It logs NULL, or the value from before, of columns that its source lacks."""
    found = images(Generated.REPLICATED, ("i", "+", "1"), ("i", "*", "4"))
    assert found.column(1).to_pylist() == [2, 2, 6]
    assert found.column(2).to_pylist() == [4, 4, 20]


@pytest.mark.parametrize("other", [("g", "*", "2"), ("i", "^", "4")])
def test_values_of_values_that_may_tell_nothing_are_not(other: tuple[str, ...]) -> None:
    found = images(Generated.REPLICATED, ("i", "+", "1"), other)
    assert found.column(1).to_pylist() == [2, 2, 6]
    assert found.column(2).null_count >= 1


def test_values_that_a_server_does_not_log_are_computed_of_others_that_are() -> None:
    found = images(Generated.UNLOGGED, ("i", "+", "1"), ("g", "*", "2"))
    assert found.column(1).to_pylist() == [2, 2, 2]
    assert found.column(2).to_pylist() == [4, 4, 4]
