"""A value that a rule hides is in no target, log line or error: a recognizable one is looked for in all of them."""

from __future__ import annotations

import datetime as dt
import json
import logging
import traceback
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from binlog_connector.options.query_views import make_view
from binlog_connector.options.source_options import SourceOptions
from binlog_connector.rules.row_rules import read_rules
from binlog_connector.spark.partitions import RangePartition
from binlog_connector.spark.reading import RangeReader
from binlog_connector.spark.schema import spark_json
from binlog_format import open_log
from binlog_format.errors import BinlogError, SchemaError
from binlog_format.rows.decoding import Decoding
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.settings import Mode, Sink, TableFormat, TableRule
from tests.program import run_program
from tests.streaming.tables import batches
from tests.streaming.tables.batches import cut
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from binlog_lab.event_encoding.value_encoding import Value

pytestmark = pytest.mark.usefixtures("shown_values")

SECRET = "LEAK7731"
COLUMNS = ("id", "nothing", "hash", "card", "note", "gone")
PEOPLE = TableSpec(
    "shop",
    "people",
    (
        ColumnSpec("id", "int"),
        *(ColumnSpec(name, "varchar(60)") for name in COLUMNS[1:]),
        ColumnSpec("day", "datetime"),
        ColumnSpec("odd", "varchar(60)", charset="utf8mb3"),
    ),
    ("id",),
)
RULE = """[{
    "select": "shop.people",
    "drop_columns": ["gone", "bin?"],
    "mask": {"nothing": "null", "hash": "sha256", "card": "last 4", "note": "text -", "day": "sha256", "odd": "last 4"},
    "salt_variable": "LEAK_SALT",
    "where": "gone <> 'nobody' and nothing like 'LEAK%'"
}]"""
NOON = dt.datetime.fromisoformat("2026-01-31 12:00:00")
SINKS = [
    (TableFormat.DELTA, Mode.MIRROR),
    (TableFormat.DELTA, Mode.SCD2),
    (TableFormat.DELTA, Mode.CHANGELOG),
    (TableFormat.ICEBERG, Mode.MIRROR),
    (TableFormat.PARQUET, Mode.CHANGELOG),
]


@pytest.fixture(autouse=True)
def salt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAK_SALT", "the salt, which is no one's business")


def _row(number: int, *, gone: str = SECRET, odd: Value = f"{SECRET}-4444") -> tuple[Value, ...]:
    # Each value is at least as long as what `last 4` takes to show anything.
    values = [f"{SECRET}-{number}-{name}" for name in COLUMNS[1:-1]]
    return number, *values, f"{gone}-{number}", NOON, odd


def _record(directory: Path) -> None:
    with ShopLog(directory) as log:
        log.statement(PEOPLE.create_statement())
        log.insert(PEOPLE, _row(1), _row(2), _row(3))
        log.update(PEOPLE, (_row(1), _row(4)), (_row(2), _row(2, gone="LEAK7731 again")))
        log.delete(PEOPLE, _row(3))
        log.statement(f"ALTER TABLE people ADD COLUMN bin VARCHAR(20) DEFAULT '{SECRET}'")


def _write(directory: Path, target: Path, kind: TableFormat, mode: Mode, decoding: Decoding) -> None:
    with open_log(str(directory)) as log:
        for number, batch in enumerate(cut(log, 3)):
            sink = Sink(directory=str(target), format=kind)
            batches.write(log, batch, target, number, (TableRule(mode=mode),), sink=sink, decoding=decoding)


def everything_in(folder: Path) -> str:
    """All files as text: what Parquet files hold, and what they say of it."""
    parts = []
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        parts.append(file.read_bytes().decode("latin-1"))
        if file.suffix == ".parquet":
            content = pq.ParquetFile(file)
            parts += [str(content.read().to_pydict()), str(content.metadata.to_dict())]
    return "\n".join(parts)


@pytest.mark.parametrize(("kind", "mode"), SINKS)
def test_is_in_no_target_and_no_log_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: TableFormat, mode: Mode
) -> None:
    _record(tmp_path / "log")
    caplog.set_level(logging.DEBUG)
    _write(tmp_path / "log", tmp_path / "under rules", kind, mode, Decoding(rules=read_rules(RULE)))
    found = everything_in(tmp_path / "under rules") + caplog.text
    assert "****card" in found
    assert SECRET not in found
    _write(tmp_path / "log", tmp_path / "without", kind, mode, Decoding())
    assert SECRET in everything_in(tmp_path / "without")


def _bad_texts(log: ShopLog) -> None:
    # Bytes that are no text, around the value: errors about visible columns show them.
    logged = TableSpec("shop", "people", (*PEOPLE.columns[:-1], ColumnSpec("odd", "varbinary(60)")), ("id",))
    table_map = TableSpec("shop", "people", PEOPLE.columns, ("id",))
    log.insert(logged, _row(9, odd=b"\xff" + SECRET.encode()), seen_as=table_map)


def _statement(log: ShopLog) -> None:
    log.statement(f"UPDATE people SET hash = '{SECRET}' WHERE gone = '{SECRET}'")


def _incident(log: ShopLog) -> None:
    log.statement(f"ALTER TABLE people CHANGE hash shown VARCHAR(60) DEFAULT '{SECRET}'")


@pytest.mark.parametrize(
    ("provoke", "condition"),
    [
        (_bad_texts, "BINLOG_UNSUPPORTED.INVALID_TEXT"),
        (_statement, "BINLOG_UNSUPPORTED.STATEMENT_FORMAT"),
        (_incident, "BINLOG_SCHEMA.SCHEMA_CHANGED"),
    ],
)
def test_is_in_no_error(tmp_path: Path, provoke: Callable[[ShopLog], None], condition: str) -> None:
    with ShopLog(tmp_path / "log") as log:
        log.statement(PEOPLE.create_statement())
        provoke(log)
    with pytest.raises(BinlogError) as caught:
        _write(tmp_path / "log", tmp_path / "t", TableFormat.DELTA, Mode.MIRROR, Decoding(rules=read_rules(RULE)))
    assert caught.value.condition == condition
    told = "".join(traceback.format_exception(caught.value))
    assert SECRET not in told
    assert SECRET.encode().hex() not in told
    assert SECRET not in repr(read_rules(RULE))


@pytest.mark.parametrize("command", [("changes",), ("tail", "--from", "earliest", "--once")])
def test_column_with_a_new_name_ends_what_shows_rows(tmp_path: Path, command: tuple[str, ...]) -> None:
    renamed = TableSpec("shop", "people", (ColumnSpec("id", "int"), ColumnSpec("mail", "varchar(60)")), ("id",))
    before = TableSpec("shop", "people", (ColumnSpec("id", "int"), ColumnSpec("email", "varchar(60)")), ("id",))
    with ShopLog(tmp_path / "log") as log:
        log.statement(before.create_statement())
        log.insert(before, (1, SECRET))
        log.statement("ALTER TABLE people RENAME COLUMN email TO mail")
        log.insert(renamed, (2, SECRET))
    name, *options = command
    masks = {"email?": "null"}
    for ends in (True, False):
        rules = json.dumps({"select": "shop.people", "mask": masks})
        done = run_program(name, tmp_path / "log", *options, "--rules", rules, "--output", "jsonl")
        assert SECRET not in done.stdout + done.stderr
        assert ("SCHEMA_CHANGED] shop.people: column email is called mail now" in done.stderr) is ends
        assert done.returncode == (1 if ends else 0)
        assert ends or len(done.stdout.splitlines()) == 2
        masks["mail?"] = "null"
    source = {"path": str(tmp_path / "log"), "rules": json.dumps({"select": "shop.people", "mask": {"email?": "null"}})}
    with pytest.raises(SchemaError, match="SCHEMA_CHANGED"):
        list(_read_by_spark(source))


def _read_by_spark(given: dict[str, str]) -> Iterator[pa.RecordBatch]:
    options = SourceOptions.parse(given)
    with open_log(given["path"]) as log:
        start = log.start_position()
        whole = RangePartition(start, log.span(start).end)
    yield from RangeReader(options, spark_json(make_view(options).schema(None))).read(whole)
