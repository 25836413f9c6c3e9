"""`binlog-stream simulate`: the recorded streams give the recorded files, in both forms."""

from __future__ import annotations

import json
import re
import shlex
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from binlog_format import Position, open_log
from binlog_format.errors import CorruptError, OptionError
from binlog_format.gtids.gtid import Gtid
from binlog_lab.innodb_writer.operation_stream import encode_steps, read_steps
from binlog_lab.innodb_writer.operations import WriterStep
from binlog_lab.innodb_writer.operations_layout import OperationCode
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.simulation.json_steps import read_json_steps
from binlog_lab.simulation.run import SimulatedRate, Simulation
from tests.corpus import corpus
from tests.format.innodb.reference_reader import read_log
from tests.program import run_program
from tests.streaming.simulation.readable import json_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "simulate.md"
STREAMS = ["small", "flushed", "xa", "mixed", "forest", "savepoint"]
SMALL = WriterOptions(page_size=512, max_binlog_size=1 << 14, state_interval=1 << 11, sync=False)


def _options_of(manifest: dict[str, object]) -> list[str]:
    names = {
        "--page-size": "page_size",
        "--max-binlog-size": "max_binlog_size",
        "--state-interval": "state_interval_bytes",
        "--cache-size": "binlog_cache_size",
    }
    options = [word for option, name in names.items() for word in (option, str(manifest[name]))]
    given = manifest["options"]
    assert isinstance(given, list)
    return options + [option for option in given if option == "--no-prealloc"]


def _comparable(folder: Path) -> dict[str, bytes]:
    """The files; of their headers not the LSN, which the recorded ones lack, and the checksums over it."""
    return {
        path.name: b""
        if not any(data := path.read_bytes())
        else data[:32] + data[40:508] + data[512:16380] + data[16384:]
        for path in folder.glob("*.ibb")
    }


@pytest.mark.parametrize("form", ["binary", "readable"])
@pytest.mark.parametrize("name", STREAMS)
def test_recorded_streams_give_the_recorded_files(name: str, form: str, tmp_path: Path) -> None:
    expected = corpus("innodb-binlog") / "innodb-binlog" / name
    manifest = json.loads((expected / "manifest.json").read_text())
    assert manifest["page_size"] == 16384
    source = corpus("innodb-ops") / "innodb-ops" / f"{name}.ops"
    if form == "readable":
        readable = tmp_path / "operations.jsonl"
        readable.write_text(json_lines(placed.step for placed in read_steps(source)))
        source = readable
    result = run_program("simulate", source, "--to", tmp_path / "log", *_options_of(manifest))
    assert result.returncode == 0, result.stderr
    assert f"{len(manifest['groups']):,} event groups" in result.stdout
    assert _comparable(tmp_path / "log") == _comparable(expected)


def _group_steps(folder: Path, first: int = 0) -> list[WriterStep]:
    """Operations that write the groups of a log again, all of them inline."""
    steps = []
    for group in read_log(folder).groups[first:]:
        assert group.oob_records == 0
        size = int.from_bytes(group.data[9:13], "little")
        if group.data[4] == 15:
            steps.append(WriterStep(OperationCode.RAW_COMMIT, data=group.data))
            continue
        head = group.data[:size]
        gtid = Gtid(*(int.from_bytes(head[at : at + size], "little") for at, size in ((27, 4), (5, 4), (19, 8))))
        steps += [
            WriterStep(OperationCode.BEGIN, 1),
            WriterStep(OperationCode.EVENT, 1, data=group.data[size:]),
            WriterStep(OperationCode.COMMIT, 1, gtid=gtid, data=head),
        ]
    return steps


def test_recorded_crash_gives_the_recorded_views(tmp_path: Path) -> None:
    """Before it, what a tailer saw, after recovery, and later: of all of them every byte.

    The operations are made of what the views hold: the groups up to the last durable point; 120 more, and a transaction
    that spills twice and stays open, of whose second record the end was never written; the crash; 40 groups.
    """
    expected = corpus("innodb-binlog") / "innodb-binlog" / "crash"
    manifest = json.loads((expected / "manifest.json").read_text())
    before = read_log(expected / "a_before").groups
    open_pieces = _open_pieces(expected / "b_seen_by_tailer" / "binlog-000001.ibb")
    start, *later = _group_steps(expected, len(before))
    steps = [
        *_group_steps(expected / "a_before"),
        WriterStep(OperationCode.SNAPSHOT, name="a_before", number=1),
        WriterStep(OperationCode.MARK),
        *_group_steps(expected / "b_seen_by_tailer", len(before)),
        WriterStep(OperationCode.BEGIN, 2),
        *(WriterStep(OperationCode.PIECE, 2, data=piece) for piece in open_pieces),
        WriterStep(OperationCode.SNAPSHOT, name="b_seen_by_tailer"),
        WriterStep(OperationCode.CRASH, data=start.data),
        WriterStep(OperationCode.SNAPSHOT, name="c_after_recovery", number=1),
        *later,
        WriterStep(OperationCode.SNAPSHOT, name="d_later"),
    ]
    source = tmp_path / "crash.ops"
    source.write_bytes(encode_steps(steps))
    options = _options_of(manifest)
    result = run_program("simulate", source, "--to", tmp_path / "log", "--snapshots", tmp_path / "views", *options)
    assert result.returncode == 0, result.stderr
    assert "1 crash" in result.stdout
    for view in ("a_before", "b_seen_by_tailer", "c_after_recovery", "d_later"):
        assert _comparable(tmp_path / "views" / view) == _comparable(expected / view), view
    assert _comparable(tmp_path / "log") == _comparable(expected)
    seen = [group.data for group in read_log(tmp_path / "views" / "b_seen_by_tailer").groups]
    left = [group.data for group in read_log(tmp_path / "log").groups]
    assert len(set(seen) - set(left)) == len(manifest["lost_in_crash"]) == 120


def _open_pieces(path: Path) -> list[bytes]:
    """Payloads of the two records behind the last commit record; the second one goes on in a page that is not there."""
    page = path.read_bytes()[8 * 16384 : 9 * 16384]
    first = page[2436 + 5 : 10633]
    cut = page[10636 + 7 : 16380]
    assert page[2433] == 0x43
    assert page[10633] == 0x03
    assert len(first) == 8192
    return [first, cut.ljust(8192, b"?")]


# --- the readable form -----------------------------------------------------------------------------------------------


def _examples() -> Iterator[str]:
    yield from re.findall(r"```json\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)


def test_documented_example_runs_and_prints_what_is_said(tmp_path: Path) -> None:
    """The operations, the command and its output are those of the document."""
    text = DOCUMENT.read_text()
    (tmp_path / "shop.jsonl").write_text(next(_examples()))
    commands = re.findall(r"^    \$ binlog-stream (.*)\n((?:    [^$].*\n)*)", text, re.MULTILINE)
    assert len(commands) == 2
    for command, output in commands:
        result = run_program(*shlex.split(command), cwd=tmp_path, environment={"COLUMNS": "120"})
        assert result.returncode == 0, result.stderr
        printed = [re.sub(r"in \d+\.\d s", "in 0.0 s", line.rstrip()) for line in result.stdout.splitlines()]
        assert printed == [line[4:].rstrip() for line in output.splitlines()]


def test_document_names_every_operation_and_event() -> None:
    text = DOCUMENT.read_text()
    documented = set(re.findall(r"^\| `(\w+)`", text, re.MULTILINE))
    own = {"group", "table", "defaults"}
    events = {"query", "xid", "annotate_rows", "format_description", "padding", "insert", "update", "delete"}
    assert documented == {operation.name.lower() for operation in OperationCode} | own | events


def _simulate(folder: Path, *lines: object, options: WriterOptions = SMALL) -> Simulation:
    path = folder / "operations.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    simulation = Simulation(path, folder / "log", options, snapshots=folder)
    simulation.run()
    return simulation


def test_described_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    columns = [
        {"name": "id", "type": "bigint"},
        {"name": "price", "type": "decimal(8,2)"},
        {"name": "sent", "type": "datetime(3)", "nullable": True},
        {"name": "day", "type": "date"},
        {"name": "span", "type": "time"},
        {"name": "kind", "type": "enum('a','b')"},
        {"name": "label", "type": "varchar(20)"},
        {"name": "raw", "type": "varbinary(20)"},
        {"name": "weight", "type": "double"},
    ]
    first = [1, "12.50", None, "2024-02-29", "-12:30:01", "b", "näme", "AAEC", 0.5]
    second = [1, "-0.01", "2024-01-02T03:04:05.678", "2024-03-01", "00:00:00", "a", "x", "", 2]
    _simulate(
        tmp_path,
        {"op": "table", "name": "shop.orders", "columns": columns, "primary_key": ["id"]},
        {
            "op": "group",
            "gtid": "0-7-1",
            "events": [
                {"type": "insert", "table": "shop.orders", "rows": [first]},
                {"type": "update", "table": "shop.orders", "rows": [[first, second]]},
                {"type": "delete", "table": "shop.orders", "rows": [second]},
                {"type": "xid", "xid": 9},
            ],
        },
    )
    with open_log(str(tmp_path / "log")) as log:
        rows = [row for batch in log.changes() for row in batch.to_pylist()]
    assert [row["op"] for row in rows] == ["insert", "update", "delete"]
    assert {row["gtid"] for row in rows} == {"0-7-1"}
    assert {row["server_id"] for row in rows} == {7}
    before, after = json.loads(rows[1]["before"]), json.loads(rows[1]["after"])
    assert before == {
        "id": 1,
        "price": "12.50",
        "sent": None,
        "day": "2024-02-29",
        "span": "-12:30:01",
        "kind": "b",
        "label": "näme",
        "raw": "AAEC",
        "weight": 0.5,
    }
    assert after["sent"] == "2024-01-02T03:04:05.678"
    assert after["price"] == "-0.01"
    assert json.loads(rows[0]["after"]) == before
    assert json.loads(rows[2]["before"]) == after


def test_crash_in_the_readable_form(tmp_path: Path) -> None:
    progress = _simulate(
        tmp_path,
        "# a comment, and an empty line",
        "",
        {"op": "group", "gtid": "0-1-1", "events": [{"type": "padding", "size": 700}]},
        {"op": "mark"},
        {"op": "group", "gtid": "0-1-2", "events": [{"type": "padding", "size": 900}]},
        {"op": "snapshot", "name": "seen", "partial_page": True},
        {"op": "crash", "event": {"type": "format_description"}},
        {"op": "group", "gtid": "0-1-2", "events": [{"type": "query", "sql": "COMMIT"}]},
    ).progress
    assert (progress.groups, progress.crashes) == (3, 1)
    seen = [group.data for group in read_log(tmp_path / "seen").groups]
    left = [group.data for group in read_log(tmp_path / "log").groups]
    assert [data[4] for data in left] == [162, 15, 162]
    assert seen[0] == left[0]
    assert seen[1] not in left


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 2: "),
        ('{"op": "nothing"}', "nothing"),
        ('{"op": "begin", "sesion": 1}', "sesion"),
        ('{"op": "commit", "gtid": "1-2"}', "expected domain-server-seqno"),
        ('{"op": "event"}', "`event` or `data` is missing"),
        ('{"op": "event", "data": "!"}', "base64"),
        ('{"op": "event", "data": "", "event": {"type": "xid", "xid": 1}}', "only one of them"),
        ('{"op": "event", "event": {"type": "insert", "table": "a.b", "rows": []}}', "'a.b' is not known"),
        ('{"op": "event", "event": {"type": "insert", "table": "a.t", "rows": [[1, 2]]}}', "2 values for 1 column"),
        ('{"op": "event", "event": {"type": "insert", "table": "a.t", "rows": [["x"]]}}', "'id', int: 'x'"),
        ('{"op": "event", "event": {"type": "insert", "table": "a.t", "rows": [[99999999999]]}}', "line 2: "),
        ('{"op": "event", "event": {"type": "insert", "table": "a.t", "rows": [[null]]}}', "cannot be null"),
        ('{"op": "table", "name": "t", "columns": [{"name": "a", "type": "int"}]}', "expected database.table"),
        ('{"op": "table", "name": "a.t", "columns": [{"name": "a", "type": "point"}]}', "point"),
        ('{"op": "rollback_to", "savepoint": 3}', "3 is not known"),
        ('{"op": "xa_commit", "xid": {"gtrid": "x"}, "gtid": "0-1-1"}', "is not known"),
        ('{"op": "snapshot", "name": "../x"}', "cannot have the name"),
    ],
)
def test_bad_line_is_an_error_with_its_place(line: str, problem: str, tmp_path: Path) -> None:
    first = '{"op": "table", "name": "a.t", "columns": [{"name": "id", "type": "int"}]}'
    with pytest.raises(CorruptError) as raised:
        _simulate(tmp_path, first, line)
    assert raised.value.condition == "BINLOG_CORRUPT.BAD_ENTRY"
    assert problem in str(raised.value)
    assert raised.value.at is not None
    assert raised.value.at.byte == len(first) + 1


def test_reset_master_with_an_open_transaction_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptError, match="line 2: RESET MASTER"):
        _simulate(
            tmp_path,
            {"op": "piece", "event": {"type": "padding", "size": 40}},
            {"op": "reset_master"},
        )


def test_directory_with_a_log_is_refused(tmp_path: Path) -> None:
    _simulate(tmp_path, {"op": "checkpoint"})
    before = {path: path.read_bytes() for path in (tmp_path / "log").iterdir()}
    result = run_program("simulate", tmp_path / "operations.jsonl", "--to", tmp_path / "log")
    assert result.returncode == 2
    assert "there is a log already" in result.stderr
    assert {path: path.read_bytes() for path in (tmp_path / "log").iterdir()} == before


def test_readable_form_says_the_same_as_the_binary_one(tmp_path: Path) -> None:
    steps = [WriterStep(operation, gtid=Gtid(1, 2, 3), data=b"x") for operation in (OperationCode.COMMIT,)]
    steps += [
        WriterStep(OperationCode.PURGE, number=4),
        WriterStep(OperationCode.RESET_MASTER, gtids=(Gtid(1, 2, 3), Gtid(2, 2, 2))),
    ]
    steps += [
        WriterStep(OperationCode.FLUSH),
        WriterStep(OperationCode.FLUSH, gtids=()),
        WriterStep(OperationCode.CHECKPOINT),
    ]
    path = tmp_path / "x.jsonl"
    path.write_text(json_lines(steps))
    assert [placed.step for placed in read_json_steps(path)] == steps


# --- in real time ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("200", SimulatedRate(200, False)),
        ("2M", SimulatedRate(2 << 20, True)),
        ("0.5k", SimulatedRate(512, True)),
        ("9B", SimulatedRate(9, True)),
    ],
)
def test_rate_is_of_groups_or_with_a_unit_of_bytes(text: str, rate: SimulatedRate) -> None:
    assert SimulatedRate.parse(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "0", "-1", "2MB/s"])
def test_other_rates_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="rate"):
        SimulatedRate.parse(text)


def _live(folder: Path, count: int, size: int) -> Simulation:
    groups = [
        {"op": "group", "gtid": f"0-1-{number}", "events": [{"type": "padding", "size": size}]}
        for number in range(1, count + 1)
    ]
    path = folder / "operations.jsonl"
    path.write_text("".join(json.dumps(group) + "\n" for group in groups))
    return Simulation(path, folder / "log", WriterOptions(max_binlog_size=1 << 16, sync=False))


@pytest.mark.parametrize(
    ("rate", "size"), [(SimulatedRate(100, False), 300), (SimulatedRate(34_200, True), 300)], ids=["groups", "bytes"]
)
def test_tailer_sees_a_live_log_grow(rate: SimulatedRate, size: int, tmp_path: Path) -> None:
    """100 groups at 100 groups a second, the same as 34,200 bytes: all are seen, some of them before the end."""
    simulation = _live(tmp_path, 100, 300)
    thread = threading.Thread(target=simulation.run, kwargs={"rate": rate})
    started = time.monotonic()
    thread.start()
    counts = {0}
    while thread.is_alive():
        if (tmp_path / "log" / "binlog-000000.ibb").exists():
            with open_log(str(tmp_path / "log")) as log:
                counts.add(sum(int(block.groups["ends"].sum()) for block in log.blocks(Position(0, 1, 0))))
        thread.join(0.02)
    seconds = time.monotonic() - started
    assert seconds > 0.9
    assert len(counts) > 2
    with open_log(str(tmp_path / "log")) as log:
        assert sum(int(block.groups["ends"].sum()) for block in log.blocks()) == 100


def test_stopped_run_leaves_a_good_log(tmp_path: Path) -> None:
    simulation = _live(tmp_path, 1000, 100)
    stop = threading.Event()
    thread = threading.Thread(target=simulation.run, args=(stop, SimulatedRate(50, False)))
    thread.start()
    while simulation.progress.groups < 3:
        thread.join(0.005)
    stop.set()
    thread.join(300)
    assert not thread.is_alive()
    with open_log(str(tmp_path / "log")) as log:
        groups = sum(int(block.groups["ends"].sum()) for block in log.blocks())
    assert 3 <= groups == simulation.progress.groups < 1000


def test_option_that_no_server_takes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError):
        _simulate(tmp_path, options=WriterOptions(page_size=1000))
