"""Row images that lack columns under rules, and values that cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from binlog_connector.rules.row_rule import RowRule
from binlog_connector.rules.row_rules import TableRules
from binlog_connector.rules.rules_on_tables import BoundRule
from binlog_format.errors import UnsupportedError
from binlog_format.events.table_map import parse_table_map
from binlog_format.kernels import as_bytes
from binlog_format.messages import SHOW_VALUES
from binlog_format.rows.decoding import Decoding
from binlog_format.rows.images import ABSENT, IMAGE_DTYPE, NULL, ImageKind, Images
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec
from tests.streaming.tables.shop import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Sequence

SPEC = TableSpec(
    "shop",
    "items",
    (
        ColumnSpec("id", "int"),
        ColumnSpec("stock", "int", nullable=True),
        ColumnSpec("name", "varchar(20)", nullable=True),
    ),
    ("id",),
)
LAYOUT = parse_table_map(TableEncoder(SPEC, 1).table_map(ORIGIN))
MISSING = "missing"
SECRET = b"secret"
UPDATE = (ImageKind.UPDATE_BEFORE, ImageKind.UPDATE_AFTER)


def images_of(kinds: Sequence[ImageKind], rows: Sequence[tuple[object, ...]]) -> Images:
    """Images of rows whose values may be `MISSING`; a name is text, or bytes that are none."""
    data = b""
    cells = np.empty((3, len(rows)), dtype=np.int32)
    for number, row in enumerate(rows):
        for column, value in enumerate(row):
            cells[column, number] = {None: NULL, MISSING: ABSENT}.get(value, len(data))  # type: ignore[call-overload]
            if isinstance(value, int):
                data += value.to_bytes(4, "little")
            elif isinstance(value, bytes):
                data += bytes([len(value)]) + value
    # Columns that no image has share their cells.
    both_absent = bool((cells[1:] == ABSENT).all())
    slots = np.array([0, 1, 1]) if both_absent else np.arange(3)
    table = np.zeros(len(rows), IMAGE_DTYPE)
    table["kind"] = kinds
    return Images(LAYOUT, as_bytes(data), table, cells[: slots.max() + 1], slots)


def shown(rule: RowRule, images: Images) -> tuple[list[ImageKind], list[list[object]]]:
    rules = TableRules([BoundRule(rule, salt=b"s")])
    decoding = Decoding(rules=rules)
    found = rules.applied(images)
    assert found.layout == decoding.shown(LAYOUT)
    columns = [found.column(index).to_pylist() for index in range(len(found.layout.columns))]
    for index, column in enumerate(columns):
        mask = found.absent_mask(index)
        column[:] = [MISSING if absent else value for value, absent in zip(column, mask, strict=True)]
    assert found.has_absent() == any(MISSING in column for column in columns)
    return [ImageKind(kind) for kind in found.table["kind"]], [list(row) for row in zip(*columns, strict=True)]


def test_columns_that_images_lack_stay_so_under_masks() -> None:
    images = images_of(UPDATE, [(1, MISSING, MISSING), (MISSING, MISSING, b"new name")])
    kinds, rows = shown(RowRule(mask={"name": "last 2", "stock": "null"}), images)
    assert (tuple(kinds), rows) == (UPDATE, [[1, MISSING, MISSING], [MISSING, MISSING, "****me"]])


@pytest.mark.parametrize("mask", ["null", "text x", "last 2", "sha256"])
def test_columns_that_no_image_has(mask: str) -> None:
    images = images_of(UPDATE, [(1, MISSING, MISSING), (2, MISSING, MISSING)])
    rule = RowRule(mask={"name": mask}, salt_variable="S" if mask == "sha256" else None)
    assert shown(rule, images)[1] == [[1, MISSING, MISSING], [2, MISSING, MISSING]]


def test_columns_that_are_not_shown_are_not_missed() -> None:
    images = images_of(UPDATE, [(1, MISSING, b"a"), (2, MISSING, b"b")])
    assert shown(RowRule(drop_columns=("stock",)), images)[1] == [[1, "a"], [2, "b"]]
    images = images_of(UPDATE, [(1, MISSING, MISSING), (2, MISSING, MISSING)])
    assert shown(RowRule(columns=("id",)), images)[1] == [[1], [2]]


def test_update_that_leaves_may_lack_what_a_delete_may() -> None:
    images = images_of(UPDATE, [(1, 5, MISSING), (1, 0, MISSING)])
    assert shown(RowRule(where="stock > 0"), images) == ([ImageKind.DELETE], [[1, 5, MISSING]])


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([(1, 5, b"a"), (1, MISSING, b"a")], "shop.items: row images without stock, and `where` asks for them"),
        ([(1, MISSING, MISSING), (1, 5, b"a")], "row images without stock, and `where` asks for them"),
        ([(1, 0, b"a"), (MISSING, 5, MISSING)], "row images without id, name, and an update brings such a row into"),
    ],
)
def test_partial_images_that_do_not_tell_whether_a_row_is_shown(rows: list[tuple[object, ...]], told: str) -> None:
    with pytest.raises(UnsupportedError, match="ROW_IMAGE") as caught:
        shown(RowRule(where="stock > 0"), images_of(UPDATE, rows))
    assert told in caught.value.reason


def test_no_image_is_left() -> None:
    kinds, rows = shown(
        RowRule(where="id > 5", mask={"name": "last 2"}), images_of(UPDATE, [(1, 1, b"a"), (2, 2, b"b")])
    )
    assert (kinds, rows) == ([], [])


def test_hidden_values_that_cannot_be_read_are_not_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHOW_VALUES, "1")  # a rule hides them all the same
    images = images_of([ImageKind.INSERT], [(1, 2, SECRET + b"\xff")])
    for rule in (RowRule(mask={"name": "last 2"}), RowRule(drop_columns=("name",), where="name = 'a'")):
        with pytest.raises(
            UnsupportedError, match=r"shop\.items\.name: a value cannot be read, and a rule hides"
        ) as caught:
            shown(rule, images)
        assert SECRET.hex() not in str(caught.value)
        assert caught.value.__suppress_context__
    with pytest.raises(UnsupportedError, match=SECRET.hex()):
        shown(RowRule(where="name = 'a'"), images)
    assert shown(RowRule(mask={"name": "null"}), images)[1] == [[1, 2, None]]
    assert shown(RowRule(mask={"name": "text "}), images_of([ImageKind.INSERT], [(1, 2, b"\xff")]))[1] == [[1, 2, ""]]
