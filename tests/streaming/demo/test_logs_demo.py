"""The demo of structured logs: what the load writes is what it says, and no difference passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pytest

from binlog_format.structured.layout import Severity
from binlog_format.structured.writing import Session
from binlog_lab.demo.logs.load import LOG_NAME, Load, write_log
from binlog_lab.demo.logs.run import compare_events
from tests.format.structured.plain_reader import events

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.proof.expected_rows import ExpectedTable

Row = dict[str, object]


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> tuple[ExpectedTable, list[Row]]:
    """What the load says it has logged, and what a plain reader finds."""
    directory = tmp_path_factory.mktemp("log")
    session = Session()
    load = Load(session, threads=3, events=3000, seconds=0.5)
    load.start()
    load.go_live()
    reports = list(write_log(directory, load, session, max_bytes=20_000))
    assert reports[-1].events == 3000
    assert reports[-1].files > 3
    renamed = [f"{LOG_NAME}.{number}" for number in range(reports[-1].files - 1, 0, -1)]
    files = [directory / name for name in (*renamed, LOG_NAME)]
    return load.expected_table(), [row for number, file in enumerate(files) for row in rows_of(file, number)]


def rows_of(file: Path, file_no: int) -> list[Row]:
    return [
        {
            "position": {"file_no": file_no, "page": 0, "chunk": number},
            "writer": one.writer.name.decode(),
            "ns": one.clock,
            "severity": Severity(one.source.severity).name.lower(),
            "category": one.source.category.decode(),
            "function": one.source.function.decode(),
            "line": one.source.line,
            "format": one.source.format.decode(),
            "message": message_of(one.source.format.decode(), one.args),
            "args": msgspec.json.encode([plain(value) for value in one.args]).decode(),
        }
        for number, one in enumerate(events(file.read_bytes()))
    ]


def plain(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value


def message_of(format: str, args: list[object]) -> str:
    for value in args:
        shown = "{null}" if value is None else str(value).lower() if isinstance(value, bool) else str(plain(value))
        format = format.replace("{}", shown.replace("{", "\0"), 1)
    return format.replace("\0", "{")


def test_log_holds_what_was_logged(logged: tuple[ExpectedTable, list[Row]]) -> None:
    truth, rows = logged
    comparison = compare_events(truth, pa.Table.from_pylist(rows))
    assert comparison.differences == ()
    assert (comparison.is_equal, comparison.expected, comparison.got) == (True, 3000, 3000)


def test_lost_doubled_changed_and_swapped_events_are_found(logged: tuple[ExpectedTable, list[Row]]) -> None:
    truth, rows = logged
    swapped = [dict(row) for row in rows]
    first = next(row for row in swapped if row["writer"] == "till 1")
    second = next(row for row in swapped if row["writer"] == "till 1" and row["ns"] != first["ns"])
    first["position"], second["position"] = second["position"], first["position"]
    wrong = {
        "lost": rows[1:],
        "doubled": [*rows, rows[5]],
        "changed": [{**rows[0], "message": "x"}, *rows[1:]],
        "swapped": swapped,
    }
    found = {name: compare_events(truth, pa.Table.from_pylist(table)) for name, table in wrong.items()}
    assert {name: one.is_equal for name, one in found.items()} == dict.fromkeys(wrong, False)
    assert not compare_events(truth, None).is_equal
