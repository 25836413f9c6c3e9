"""Generated columns that the log lacks, in every way out but tables of a job: named, null, or not shown."""

from __future__ import annotations

import json
import shutil
import tarfile
import zlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from binlog_connector.following.starts import Edge
from binlog_connector.following.tailer import FollowOptions, Tailer
from binlog_connector.following.watched import WatchedLog
from binlog_connector.options.query_views import make_decoding, make_view
from binlog_connector.options.source_options import SourceOptions
from binlog_connector.spark.partitions import RangePartition
from binlog_connector.spark.reading import RangeReader
from binlog_connector.spark.schema import find_layout, spark_json
from binlog_format.errors import BinlogError, OptionError, UnsupportedError
from binlog_format.position import Position
from binlog_streaming.settings import PublishJob, parse_any_job
from binlog_streaming.topics.connecting import names_of
from binlog_streaming.topics.record import Records
from binlog_streaming.topics.step_messages import StepMessages
from tests.judge.test_reported import ARCHIVE
from tests.program import run_program

if TYPE_CHECKING:
    from pathlib import Path

# MariaDB 11.8, binlog_row_image=FULL: CREATE TABLE l (id, qty, price, total STORED, note); 3 INSERTs, 3 UPDATEs.
CASE = "m118_stored_full"
EXPRESSION = b"(qty*price)"
LACKING = r"\[BINLOG_UNSUPPORTED\.ROW_IMAGE\] w\.l: row images without total"
WAYS = ["fail", "null", "drop"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log, with an expression that is not computed here."""
    folder = logged(tmp_path_factory.mktemp("log"))
    for path in folder.glob("*.0*"):
        path.write_bytes(with_another_expression(path.read_bytes()))
    return folder


def with_another_expression(file: bytes) -> bytes:
    events, at = [file[:4]], 4
    while at < len(file):
        event = file[at : at + int.from_bytes(file[at + 9 : at + 13], "little")]
        at += len(event)
        if EXPRESSION in event:
            changed = event[:-4].replace(EXPRESSION, EXPRESSION.replace(b"*", b"^"))
            event = changed + zlib.crc32(changed).to_bytes(4, "little")
        events.append(event)
    return b"".join(events)


@pytest.fixture(scope="module")
def computed_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return logged(tmp_path_factory.mktemp("computed"))


def logged(folder: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        wanted = [member for member in archive.getmembers() if member.name.startswith(f"reported/{CASE}/")]
        archive.extractall(folder, members=wanted, filter="data")
    shutil.copytree(folder / "reported" / CASE, folder / "log")
    return folder / "log"


def rules(way: str, **more: object) -> str:
    return json.dumps([{"select": r"w\.l", "generated": way, **more}])


def totals(rows: list[dict[str, Any]]) -> list[object]:
    return [row.get("total", "none") for row in rows]


def changefeed(log: Path, begin: Position | None = None, **given: str) -> list[dict[str, Any]]:
    options = SourceOptions.parse({"path": str(log), "view": "changefeed", "table": "w.l", **given})
    with WatchedLog(str(log)) as watched:
        layout = find_layout(watched, "w.l", options.start, defined_tables=options.defined_tables)
        start = watched.log.start_position()
        end = watched.log.span(start).end
    schema = make_view(options, decoding=make_decoding(options, None)).schema(layout)
    reader = RangeReader(options, spark_json(schema))
    return [row for batch in reader.read(RangePartition(begin or start, end)) for row in batch.to_pylist()]


def published(log: Path, more: str = "") -> dict[str, list[dict[str, Any]]]:
    job = parse_any_job(
        f'checkpoint = "c"\n[source]\npath = "{log}"\n[sink]\nkind = "kafka"\nbootstrap_servers = "a:1"\n'
        f'topic_prefix = "p"\nschemas_enable = true\n[[tables]]\n{more}',
        file=log / "job.toml",
    )
    assert isinstance(job, PublishJob)
    made = StepMessages(job, names_of(job.sink), None, lambda _: 1)
    topics: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with Tailer(str(log), Edge.EARLIEST, how=FollowOptions(ends=True)) as tailer:
        while (step := tailer.step(1.0)) is not None:
            for some in made.of(step, Records()):
                topics[some.topic] += [json.loads(value) for value in some.values.to_pylist() if value is not None]
    return topics


def test_topics_of_a_job(log: Path) -> None:
    with pytest.raises(UnsupportedError, match=LACKING + r'.* null with generated = "null"'):
        published(log)
    messages = [message["payload"] for message in published(log, 'generated = "null"')["p.w.l"]]
    images = [image for message in messages for image in (message["before"], message["after"]) if image is not None]
    inserted, updated = images[:3], images[3:]
    assert None not in totals(inserted)
    assert totals(updated) == [None] * 6
    assert [image["price"] for image in updated if image["price"] is None] == []
    dropped = published(log, 'generated = "drop"')["p.w.l"]
    for message in dropped:
        assert {"total"}.isdisjoint(message["payload"]["after"])
        fields = next(field for field in message["schema"]["fields"] if field["field"] == "after")["fields"]
        assert [field["field"] for field in fields] == ["id", "qty", "price", "note"]


def test_columns_that_can_be_computed_are_there(computed_log: Path) -> None:
    products = [row["qty"] * row["price"] for row in changefeed(computed_log)]
    assert totals(changefeed(computed_log)) == products
    assert [row["_absent"] for row in changefeed(computed_log, includeAbsent="true")] == [None] * 9
    topic = published(computed_log, 'generated = "fail"')["p.w.l"]
    assert None not in [message["payload"]["after"]["total"] for message in topic]
    last = json.loads(run_program("changes", str(computed_log), "--output", "jsonl").stdout.splitlines()[-1])
    assert (last["absent"], last["after"]["total"]) == (None, str(products[-1]))


@pytest.mark.parametrize("hiding", [{"mask": {"qty": "null"}}, {"drop_columns": ["price"]}])
def test_columns_that_would_tell_hidden_values_are_not_computed(computed_log: Path, hiding: dict[str, object]) -> None:
    with pytest.raises(UnsupportedError, match=LACKING):
        changefeed(computed_log, rules=rules("fail", **hiding))
    assert totals(changefeed(computed_log, rules=rules("null", **hiding)))[3:] == [None] * 6


def test_the_spark_source(log: Path) -> None:
    with pytest.raises(UnsupportedError, match=LACKING):
        changefeed(log, rules=rules("fail"))
    assert totals(changefeed(log, rules=rules("null")))[3:] == [None] * 6
    assert totals(changefeed(log, rules=rules("drop"))) == ["none"] * 9
    # The mark of what an image lacks is another way, and stays.
    named = changefeed(log, includeAbsent="true")
    assert [row["_absent"] for row in named] == [None] * 3 + [["total"]] * 6
    assert [row["_absent"] for row in changefeed(log, includeAbsent="true", rules=rules("null"))] == [None] * 9


def test_a_predicate_never_takes_what_is_lacking_for_null(log: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"row images without total, and `where` asks"):
        changefeed(log, rules=rules("null", where="total IS NULL"))


@pytest.mark.parametrize("command", ["changes", "tail"])
@pytest.mark.parametrize("way", WAYS)
def test_the_command_line(log: Path, command: str, way: str) -> None:
    more = [
        "--output",
        "jsonl",
        "--rules",
        rules(way),
        *(["--from", "earliest", "--once"] if command == "tail" else []),
    ]
    done = run_program(command, str(log), *more)
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    shown = {"fail": (["total"], "none"), "null": (None, None), "drop": (None, "none")}[way]
    assert (last["absent"], last["after"].get("total", "none")) == shown


def test_a_part_of_a_log_knows_definitions_before_it(log: Path) -> None:
    last = json.loads(run_program("changes", str(log), "--output", "jsonl").stdout.splitlines()[-1])["position"]
    begin = Position(last["file_no"], last["page"], last["chunk"])
    done = run_program("changes", str(log), "--output", "jsonl", "--start", str(begin), "--rules", rules("drop"))
    assert done.returncode == 0, done.stderr
    assert "total" not in json.loads(done.stdout.splitlines()[-1])["after"]
    assert totals(changefeed(log, begin, rules=rules("drop"))) == ["none"] * 2
    assert totals(changefeed(log, begin, rules=rules("null"))) == [None] * 2


def test_settings_that_cannot_be(log: Path) -> None:
    with pytest.raises((OptionError, BinlogError), match="generated"):
        SourceOptions.parse({"path": str(log), "rules": rules("nothing")})
    with pytest.raises(OptionError, match="nothing beside view events"):
        SourceOptions.parse({"path": str(log), "view": "events", "rules": rules("null")})
