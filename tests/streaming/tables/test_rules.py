"""Tables under rules, in every mode: what they hold is what they would hold had the server logged no more."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog_connector.rules.row_rule import RowRule
from binlog_connector.rules.row_rules import TableRules
from binlog_connector.rules.rules_on_tables import BoundRule
from binlog_format import open_log
from binlog_format.errors import TableError
from binlog_format.rows.decoding import Decoding
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.settings import Deletes, Mode, Sink, TableFormat, TableRule
from tests.chance import examples
from tests.streaming.tables import batches
from tests.streaming.tables.batches import cut
from tests.streaming.tables.lake.memory_target import MemoryTargets
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.statements.ddl_histories import ModelServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from binlog_format.position import Position

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
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
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


HASHED = RowRule(mask={f"c{number}?": "sha256" for number in range(1, 7)}, salt_variable="SALT", where="id < 8")
MIXED = RowRule(drop_columns=("c1?", "C2?"), mask={"c3?": "null", "c4?": "sha256"}, salt_variable="SALT")
LISTED = RowRule(columns=("id", "c4?", "c5?"), where="id >= 3 or id = 1")


@settings(max_examples=examples(40))
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 6),
    table=st.sampled_from([TableRule(), TableRule(deletes=Deletes.MARK), TableRule(mode=Mode.SCD2)]),
    rule=st.sampled_from([HASHED, MIXED, LISTED]),
)
def test_statements_go_through_rules(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int, table: TableRule, rule: RowRule
) -> None:
    chance = random.Random(seed)
    folder = tmp_path_factory.mktemp("history")
    with ShopLog(folder) as writer:
        server = ModelServer(writer, chance)
        server.create()
        server.create()
        # Where columns are shown in different ways, a new name is refused.
        server.live(30, () if rule is HASHED else ("rename_column",))
    targets = MemoryTargets()
    with open_log(str(folder)) as log:
        for number, batch in enumerate(cut(log, count)):
            batches.write(log, batch, "memory", number, (table,), targets=targets, decoding=decoding_of(rule))
    for name, (spec, rows) in server.tables.items():
        wanted = [_shown_row(rule, spec, row) for key, row in sorted(rows.items()) if _is_shown(rule, key)]
        held = targets.tables.get(f"shop/{name}")
        found = [] if held is None else held.table().sort_by("id").to_pylist()
        found = [row for row in found if row.get("_is_current", True) and not row.get("_deleted")]
        names = [column.name for column in spec.columns if _mask_of(rule, column.name) != ""]
        assert [{column: row[column] for column in names} for row in found] == wanted
        hidden = {name.strip("?").lower() for name in rule.drop_columns} | ({"c1", "c2"} if rule.columns else set())
        assert held is None or not hidden & set(held.table().column_names)


def _is_shown(rule: RowRule, key: int) -> bool:
    return rule.where is None or (key < 8 if rule is HASHED else key >= 3 or key == 1)


def _mask_of(rule: RowRule, name: str) -> str | None:
    # Empty: the column is not shown.
    if rule.columns:
        return None if name in ("id", "c4", "c5") else ""
    return "" if name in ("c1", "c2") and rule.drop_columns else rule.mask.get(f"{name}?")


def _shown_row(rule: RowRule, spec: TableSpec, row: Row) -> dict[str, Any]:
    shown = {}
    for column, value in zip(spec.columns, row, strict=True):
        mask = _mask_of(rule, column.name)
        if mask is None:
            shown[column.name] = value
        elif mask:
            text = f"{value:.2f}" if isinstance(value, Decimal) else value
            shown[column.name] = MASKS[mask](text)
    return shown


@pytest.mark.parametrize("kind", list(TableFormat))
def test_a_table_takes_no_rows_of_other_rules(tmp_path: Path, kind: TableFormat) -> None:
    record(tmp_path / "log", CUSTOMERS, [(None, (number, "a", 1, "b", Decimal(1))) for number in range(6)])
    sink, table = Sink(directory=str(tmp_path), format=kind), TableRule(mode=Mode.CHANGELOG)
    first, other = RowRule(mask={"name": "sha256"}, salt_variable="SALT"), RowRule(mask={"name": "null"})
    salted = Decoding(rules=TableRules([BoundRule(first, salt=b"another")]))
    with open_log(str(tmp_path / "log")) as log:
        one, two = cut(log, 2)

        def write(batch: tuple[Position, Position], number: int, decoding: Decoding) -> None:
            batches.write(log, batch, tmp_path, number, (table,), sink=sink, decoding=decoding)

        write(one, 0, decoding_of(first))
        for decoding in (decoding_of(other), salted, Decoding()):
            write(one, 0, decoding)  # which is there already, as after a kill
            with pytest.raises(TableError, match=r"RULES_CHANGED.*made with other rules for columns and rows"):
                write(two, 1, decoding)
        write(two, 1, decoding_of(msgspec.structs.replace(first, mask={"NAME?": "sha256"})))
