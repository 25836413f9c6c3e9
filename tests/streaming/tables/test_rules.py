"""Tables under rules, in every mode: what they hold is what they would hold had the server logged no more."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog_connector.rules.row_rule import RowRule
from binlog_connector.rules.row_rules import TableRules
from binlog_connector.rules.shown_table import BoundRule
from binlog_format import open_log
from binlog_format.events.table_encoding import ColumnSpec, TableSpec
from binlog_format.rows.decoding import Decoding
from binlog_streaming.settings import Mode, TableRule
from tests.chance import examples
from tests.streaming.tables import batches
from tests.streaming.tables.batches import cut
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Row = tuple[Any, ...]
    Change = tuple[Row | None, Row | None]

SALT = b"pepper"
ID, NAME, AGE = ColumnSpec("id", "int"), ColumnSpec("name", "varchar(20)"), ColumnSpec("age", "int", nullable=True)
SECRET, PRICE = ColumnSpec("secret", "varchar(50)", nullable=True), ColumnSpec("price", "decimal(8,2)")
CUSTOMERS = TableSpec("shop", "customers", (ID, NAME, AGE, SECRET, PRICE), ("id",))
MASKED = ColumnSpec("", "varchar(63)", nullable=True)
PLACES = {
    "_commit_version",
    "_commit_timestamp",
    "_position",
    "_event_no",
    "_row_no",
    "_gtid",
    "_valid_from_position",
    "_valid_to_position",
}

WHERES: dict[str | None, Callable[[Row], bool]] = {
    None: lambda row: True,
    "age >= 1": lambda row: row[2] is not None and row[2] >= 1,
    "secret is null or name = 'a'": lambda row: row[3] is None or row[1] == "a",
    "price between 0 and 1.5": lambda row: 0 <= row[4] <= Decimal("1.5"),
}


def _hashed(value: Any) -> str | None:
    return None if value is None else hashlib.sha256(SALT + str(value).encode()).hexdigest()


def _last(value: str | None) -> str | None:
    return value if value is None else "****" + (value[-2:] if len(value) >= 4 else "")


MASKS: dict[str, Callable[[Any], Any]] = {
    "null": lambda value: None,
    "sha256": _hashed,
    "last 2": _last,
    "text  -": lambda value: None if value is None else " -",
}
_OF_COLUMN = {"id": ["sha256"], "name": [*MASKS], "age": ["null", "sha256"], "secret": [*MASKS], "price": ["sha256"]}


@st.composite
def rules(draw: st.DrawFn) -> RowRule:
    hidden = set(draw(st.lists(st.sampled_from(["name", "age", "secret", "price"]), unique=True, max_size=2)))
    shown = [column.name for column in CUSTOMERS.columns if column.name not in hidden]
    masked = draw(st.lists(st.sampled_from(shown), unique=True, max_size=2))
    mask = {name: draw(st.sampled_from(_OF_COLUMN[name])) for name in masked}
    by_name = draw(st.booleans())
    rule = RowRule(
        columns=tuple(map(str.upper, shown)) if by_name else (),
        drop_columns=() if by_name else tuple(hidden),
        mask=mask,
        where=draw(st.sampled_from([*WHERES])),
        salt_variable="SALT" if "sha256" in mask.values() else None,
    )
    rule.check()
    return rule


class Shown:
    """A rule in plain Python."""

    def __init__(self, rule: RowRule) -> None:
        names = [column.name for column in CUSTOMERS.columns]
        self.columns = [
            index
            for index, name in enumerate(names)
            if name not in rule.drop_columns and (not rule.columns or name.upper() in rule.columns)
        ]
        self.masks = [rule.mask.get(names[index]) for index in self.columns]
        self.wants = WHERES[rule.where]

    def row(self, row: Row | None) -> Row | None:
        if row is None or not self.wants(row):
            return None
        values = [row[index] for index in self.columns]
        return tuple(
            value if mask is None else MASKS[mask](value) for value, mask in zip(values, self.masks, strict=True)
        )

    @property
    def spec(self) -> TableSpec:
        columns = tuple(
            CUSTOMERS.columns[index]
            if mask is None
            else replace(CUSTOMERS.columns[index], nullable=True)
            if mask == "null"
            else replace(MASKED, name=CUSTOMERS.columns[index].name)
            for index, mask in zip(self.columns, self.masks, strict=True)
        )
        return replace(CUSTOMERS, columns=columns)


ROWS = st.tuples(
    st.integers(0, 3),
    st.sampled_from(["", "a", "ab", "abcdé"]),
    st.none() | st.integers(0, 2),
    st.none() | st.sampled_from(["", "abc", "abcd", "üüüüü", "x" * 50]),
    st.decimals(-1, 2, places=2),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Change]:
    held: dict[int, Row] = {}
    changes: list[Change] = []
    for row in draw(st.lists(ROWS, min_size=1, max_size=12)):
        before = draw(st.none() | st.sampled_from(sorted(held))) if held else None
        if before is not None and draw(st.booleans()) and (row[0] == before or row[0] not in held):
            changes.append((held.pop(before), row))
            held[row[0]] = row
        elif before is not None:
            changes.append((held.pop(before), None))
        elif row[0] not in held:
            changes.append((None, row))
            held[row[0]] = row
    return changes


def record(directory: Path, spec: TableSpec, changes: list[Change]) -> None:
    with ShopLog(directory) as log:
        for before, after in changes:
            if before is None and after is not None:
                log.insert(spec, after)
            elif before is not None and after is not None:
                log.update(spec, (before, after))
            elif before is not None:
                log.delete(spec, before)


def decoding_of(rule: RowRule, *, keys: tuple[str, ...] = (), needs_key: bool = True) -> Decoding:
    return Decoding(rules=TableRules([BoundRule(rule, keys, needs_key, SALT)]))


def write(log: Path, target: Path, rule: TableRule, decoding: Decoding, count: int = 1) -> None:
    with open_log(str(log)) as opened:
        for number, batch in enumerate(cut(opened, count)):
            batches.write(opened, batch, target, number, (rule,), decoding=decoding)


def content(target: Path) -> tuple[list[str], list[Row]]:
    table = DeltaTable(str(target)).to_pyarrow_table()
    table = table.select([name for name in table.column_names if name not in PLACES])
    return [f"{field.name} {field.type}" for field in table.schema], sorted(
        (tuple(row.values()) for row in table.to_pylist()), key=repr
    )


@pytest.mark.parametrize("mode", list(Mode))
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rule=rules(), changes=histories())
def test_tables_hold_what_they_would_had_the_server_logged_no_more(
    tmp_path_factory: pytest.TempPathFactory, mode: Mode, rule: RowRule, changes: list[Change]
) -> None:
    folder, shown = tmp_path_factory.mktemp("rules"), Shown(rule)
    record(folder / "log", CUSTOMERS, changes)
    pairs = [(shown.row(before), shown.row(after)) for before, after in changes]
    record(folder / "shown log", shown.spec, [pair for pair in pairs if pair != (None, None)])
    table = TableRule(mode=mode, target="{mode}")
    write(folder / "log", folder / "under", table, decoding_of(rule), count=2)
    if all(pair == (None, None) for pair in pairs):
        assert not (folder / "under" / mode).exists()
        return
    write(folder / "shown log", folder / "without", table, Decoding())
    assert content(folder / "under" / mode) == content(folder / "without" / mode)
