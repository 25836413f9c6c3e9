"""Two foreign keys that one change reaches a row by: InnoDB takes one after the other, and no log shows which first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_format.errors import UnsupportedError
from tests.streaming.tables.cascades.cascade_model import CASCADE, SET_NULL, Key, LinkedTables, MemoryJob
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COLUMNS = {"tenant": ("id",), "member": ("id", "tenant"), "task": ("id", "tenant", "member", "other")}
RULE = {"select": r"shop\..*", "foreign_keys": "apply"}


def delete_tenant(folder: Path, keys: Sequence[Key]) -> LinkedTables:
    with ShopLog(folder / "log") as log:
        tables = LinkedTables(log, COLUMNS, keys)
        tables.create()
        for number in (1, 2):
            tables.insert("tenant", {"id": number})
            tables.insert("member", {"id": number, "tenant": number})
            tables.insert("task", {"id": number, "tenant": number, "member": number, "other": 3 - number})
        tables.delete("tenant", 1)
    return tables


def of_tenant(on_delete: str, child: str = "task", column: str = "tenant") -> Key:
    return Key(child, (column,), "tenant", ("id",), on_delete)


MEMBER = of_tenant(CASCADE, "member")


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param([of_tenant(SET_NULL), of_tenant(CASCADE)], id="one column, one parent"),
        pytest.param([of_tenant(CASCADE), of_tenant(SET_NULL)], id="the other way round"),
        pytest.param(
            [MEMBER, of_tenant(SET_NULL), Key("task", ("tenant", "member"), "member", ("tenant", "id"), CASCADE)],
            id="a column of both, one through a table between",
        ),
    ],
)
def test_keys_that_do_different_things_to_a_column_of_both_are_refused(tmp_path: Path, keys: list[Key]) -> None:
    delete_tenant(tmp_path, keys)
    with pytest.raises(UnsupportedError, match=r"FOREIGN_KEY_CASCADE\] .*task_ibfk_1 .* and task_ibfk_2 "):
        MemoryJob(tmp_path, RULE).run(1)


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param([of_tenant(CASCADE), of_tenant(CASCADE)], id="the same"),
        pytest.param([of_tenant(SET_NULL), of_tenant(SET_NULL)], id="the same, to an update"),
        pytest.param([of_tenant(CASCADE), of_tenant(SET_NULL, column="other")], id="other columns"),
        pytest.param([MEMBER, of_tenant(SET_NULL), Key("task", ("member",), "member", ("id",), CASCADE)], id="two"),
        pytest.param([of_tenant(CASCADE), of_tenant("")], id="one does nothing"),
    ],
)
def test_keys_whose_order_does_not_matter_are_followed(tmp_path: Path, keys: list[Key]) -> None:
    tables = delete_tenant(tmp_path, keys)
    job = MemoryJob(tmp_path, RULE)
    job.run(1)
    found = sorted(job.rows("shop/task"), key=lambda row: str(row["id"]))
    assert found == [row for _, row in sorted(tables.rows["task"].items())]
