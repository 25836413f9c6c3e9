"""UUID and INET columns are what statements declare in new jobs; one that began with bytes goes on with them."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from binlog_connector import log_definitions
from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.table_changes import TableAltered, TableCreated
from binlog_format import open_log
from binlog_format.errors import OptionError
from binlog_format.rows.decoding import Decoding
from binlog_format.views.changes import ChangesView
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.job_state.record import RECORD_FILE, with_declared_types
from binlog_streaming.lake.commit_id import DECLARED_PROPERTY
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.settings import Job, Mode, Sink, Source, TableRule
from binlog_streaming.tables.step_rows import agreed_types, held_types, recorded_by
from tests.faults.processes import Killed
from tests.streaming.replay_runs import run
from tests.streaming.tables.batches import cut
from tests.streaming.tables.shop import ShopLog

ID = ColumnSpec("id", "int")
CODES = TableSpec("shop", "codes", (ID, ColumnSpec("u", "binary(16)", nullable=True)), ("id",))
NETS = TableSpec("shop", "codes", (*CODES.columns, ColumnSpec("net", "binary(4)", nullable=True)), ("id",))
MADE = "CREATE TABLE codes (id INT PRIMARY KEY, u UUID)"
FIRST, SECOND = b"0123456789abcdef", bytes.fromhex("123e4567e89b12d3a456426655440000")
TEXTS = {FIRST: "30313233-3435-3637-3839-616263646566", SECOND: "123e4567-e89b-12d3-a456-426655440000"}


def job_in(folder: Path, *, declared_types: bool | None = None, modes: tuple[Mode, ...] = (Mode.MIRROR,)) -> Job:
    return Job(
        source=Source(path=str(folder / "log"), declared_types=declared_types),
        sink=Sink(directory=str(folder / "tables")),
        checkpoint=str(folder / "checkpoint"),
        tables=(TableRule(mode=modes, target="{mode}/{database}/{table}"),),
    )


def rows(job: Job, mode: Mode = Mode.MIRROR) -> list[tuple[object, ...]]:
    with closing(sink_type(job.sink.format).at(job.sink, f"{job.sink.directory}/{mode}/shop/codes")) as target:
        found = target.read().read_all()
    return sorted(
        (tuple(row[name] for name in ("id", "u", "net") if name in row) for row in found.to_pylist()), key=str
    )


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_definitions, "_known", {})


def test_a_part_of_a_log_has_the_types_of_the_whole_log(tmp_path: Path) -> None:
    """As `changes --start` and `tail` read it."""
    with ShopLog(tmp_path) as log:
        log.statement(MADE)
        log.insert(CODES, (1, FIRST))
        log.insert(CODES, (2, SECOND))
    with open_log(str(tmp_path)) as read:
        edges = [start for start, _ in cut(read, 3)]
        for start in edges:
            history = SchemaHistory()
            blocks = history.following(read.committed_blocks(start), str(tmp_path), start)
            batches = list(ChangesView(decoding=Decoding(history)).batches(blocks))
            found = [json.loads(row["after"])["u"] for batch in batches for row in batch.to_pylist()]
            assert found == [TEXTS[FIRST], TEXTS[SECOND]][-len(found) :]
            assert found


def test_a_new_job_keeps_what_statements_declare(tmp_path: Path) -> None:
    job = job_in(tmp_path, modes=(Mode.MIRROR, Mode.CHANGELOG))
    with ShopLog(tmp_path / "log") as log:
        log.statement(MADE)
        log.insert(CODES, (1, FIRST))
        log.statement("ALTER TABLE codes ADD net INET4 NOT NULL DEFAULT '10.0.0.1'")
        log.insert(NETS, (2, SECOND, bytes([192, 168, 0, 1])))
        log.update(NETS, ((1, FIRST, bytes([10, 0, 0, 1])), (1, SECOND, None)))
    run(job)
    assert rows(job) == [(1, TEXTS[SECOND], None), (2, TEXTS[SECOND], "192.168.0.1")]
    assert {row[1] for row in rows(job, Mode.CHANGELOG)} == set(TEXTS.values())
    record = json.loads((Path(job.checkpoint) / RECORD_FILE).read_text())
    assert record["options"]["declaredTypes"] == "true"


def test_a_default_of_such_a_type_fills_existing_rows(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    with ShopLog(tmp_path / "log") as log:
        log.statement(MADE)
        log.insert(CODES, (1, FIRST))
        log.statement("ALTER TABLE codes ADD net INET4 NOT NULL DEFAULT '10.0.0.1'")
    run(job)
    assert rows(job) == [(1, TEXTS[FIRST], "10.0.0.1")]


def as_begun_before(job: Job) -> None:
    """Leave of a job's record what a version had written that knew bytes only."""
    path = Path(job.checkpoint) / RECORD_FILE
    record = json.loads(path.read_text())
    assert record["options"].pop("declaredTypes") == "false"
    path.write_text(json.dumps(record))


def test_a_job_that_began_with_bytes_goes_on_with_them(tmp_path: Path) -> None:
    with ShopLog(tmp_path / "log") as log:
        log.statement(MADE)
        log.insert(CODES, (1, FIRST))
    run(job_in(tmp_path, declared_types=False))
    as_begun_before(job_in(tmp_path))
    with ShopLog(tmp_path / "log", first=10) as log:
        log.insert(CODES, (2, SECOND))
    job = job_in(tmp_path)
    assert with_declared_types(job).source.declared_types is False
    run(job)
    assert rows(job) == [(1, FIRST), (2, SECOND)]
    with pytest.raises(OptionError, match=r"source\.declaredTypes: this checkpoint was begun with 'false'"):
        run(job_in(tmp_path, declared_types=True))


def test_a_checkpoint_without_a_record_is_of_a_job_with_bytes(tmp_path: Path) -> None:
    with ShopLog(tmp_path / "log") as log:
        log.statement(MADE)
        log.insert(CODES, (1, FIRST))
    job = job_in(tmp_path)
    assert with_declared_types(job).source.declared_types is True
    with pytest.raises(Killed):
        run(job, batches_max=1)
    assert with_declared_types(job).source.declared_types is True
    (Path(job.checkpoint) / RECORD_FILE).unlink()
    assert with_declared_types(job).source.declared_types is False
    said = msgspec.structs.replace(job.source, declared_types=True)
    assert with_declared_types(msgspec.structs.replace(job, source=said)).source.declared_types is True


@pytest.mark.parametrize("modes", [(Mode.MIRROR,), (Mode.MIRROR, Mode.CHANGELOG)], ids=len)
def test_a_job_goes_on_when_the_log_has_the_definition_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modes: tuple[Mode, ...]
) -> None:
    job = job_in(tmp_path, modes=modes)
    with ShopLog(tmp_path / "log") as log:
        log.statement(MADE)
        log.insert(CODES, (1, FIRST))
        log.statement("ALTER TABLE codes ADD net INET4")
        log.flush()
        log.insert(NETS, (2, FIRST, bytes([10, 0, 0, 2])))
    run(job)
    with ShopLog(tmp_path / "log", first=10) as log:
        log.flush()
        log.purge(before=1)
        log.insert(NETS, (3, SECOND, bytes([10, 0, 0, 3])))
        log.update(NETS, ((1, FIRST, None), (1, SECOND, None)))
    monkeypatch.setattr(log_definitions, "_known", {})
    run(job)
    assert rows(job) == [(1, TEXTS[SECOND], None), (2, TEXTS[FIRST], "10.0.0.2"), (3, TEXTS[SECOND], "10.0.0.3")]


def test_what_a_statement_changes_is_not_remembered_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_in(tmp_path)
    inet6 = replace(CODES, columns=(ID, ColumnSpec("v", "binary(16)", nullable=True)))
    with ShopLog(tmp_path / "log") as log:
        log.statement(MADE)
        log.insert(CODES, (1, FIRST))
        log.flush()
    run(job)
    with ShopLog(tmp_path / "log", first=10) as log:
        log.purge(before=1)
        log.statement("ALTER TABLE codes DROP u, ADD v INET6")
        log.insert(inet6, (2, bytes(15) + b"\1"))
        log.flush()
    monkeypatch.setattr(log_definitions, "_known", {})
    run(job)
    with ShopLog(tmp_path / "log", first=20) as log:
        log.insert(inet6, (3, bytes(15) + b"\2"))
        log.purge(before=3)
    monkeypatch.setattr(log_definitions, "_known", {})
    run(job)
    with closing(sink_type(job.sink.format).at(job.sink, f"{job.sink.directory}/mirror/shop/codes")) as target:
        assert held_types(target.properties()) == {"v": "inet6"}
        found = {row["id"]: row["v"] for row in target.read().read_all().to_pylist()}
    assert found == {1: None, 2: "::1", 3: "::2"}


def test_names_that_are_exchanged_are_forgotten() -> None:
    """A batch that is done again would exchange them back."""
    held = {DECLARED_PROPERTY: json.dumps({"u": "uuid", "v": "inet6"})}
    name = TableName("shop", "codes")
    assert recorded_by(held, TableAltered(name, renamed={"U": "v", "V": "u"})) == {DECLARED_PROPERTY: ""}
    renamed = recorded_by(held, TableAltered(name, renamed={"u": "w"}))
    assert held_types(renamed) == {"v": "inet6", "w": "uuid"}
    assert recorded_by(renamed, TableAltered(name, renamed={"u": "w"})) == {}
    assert recorded_by(held, TableCreated(name, None, if_not_exists=True)) == {}
    assert recorded_by(held, TableCreated(name, None)) == {DECLARED_PROPERTY: ""}


def test_targets_that_are_not_at_one_place_tell_nothing() -> None:
    one, other = ({DECLARED_PROPERTY: json.dumps({"u": kind})} for kind in ("uuid", "inet6"))
    assert agreed_types([one, None, one]) == {"u": "uuid"}
    assert agreed_types([one, other]) == {}
    assert agreed_types([None]) == {}
