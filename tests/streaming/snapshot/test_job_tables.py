"""What a snapshot of a table is for, by what the job has of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
import pytest

from binlog_connector.following.offsets import SourceOffset
from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.snapshot_marks import Purpose
from binlog_format.position import Position
from binlog_streaming.job_state.record import RECORD_FILE, JobRecord
from binlog_streaming.plan.job_state import SetAside
from binlog_streaming.plan.snapshots import PlannedSnapshot
from binlog_streaming.prove.comparison import ProofOutcome
from binlog_streaming.prove.run import JobProof
from binlog_streaming.settings import load_job
from binlog_streaming.snapshot.definitions import plan_definitions
from binlog_streaming.snapshot.plan import make_plan
from binlog_streaming.snapshot.reading.plan import plan_reading
from binlog_streaming.snapshot.server_tables import JobTables
from tests.servers import mariadb_server_in
from tests.streaming.snapshot.live import job_file, run_sql, session_on

if TYPE_CHECKING:
    from pathlib import Path

WHOLE, OPEN, LACKING, ASIDE, REFUSED, NEW = (
    TableName("shop", name) for name in ("whole", "open", "lacking", "aside", "refused", "new")
)


def tables_of(directory: Path, *, has_begun: bool) -> JobTables:
    job = load_job(job_file(directory, directory / "log"))
    if has_begun:
        written = (WHOLE, OPEN, LACKING, ASIDE, REFUSED)
        aside = SetAside(database="shop", table="aside", position="1:0:0:0", gtid=None, reason="[X.Y] why")
        snapshot = PlannedSnapshot(
            database="shop", table="refused", snapshot="u", purpose="complete", problem="it was altered"
        )
        record = msgspec.structs.replace(
            JobRecord.of(job),
            tables=tuple(tuple(name) for name in written),
            complete=(tuple(WHOLE), tuple(ASIDE)),
            incomplete=(tuple(LACKING),),
            set_aside=(aside,),
            snapshots=(snapshot,),
        )
        root = directory / "checkpoint"
        for folder in ("offsets", "commits"):
            (root / folder).mkdir(parents=True)
        (root / RECORD_FILE).write_bytes(msgspec.json.encode(record))
        (root / "metadata").write_text(json.dumps({"id": "q"}))
        offset = json.dumps(SourceOffset(Position(0, 1, 0)).to_json())
        (root / "offsets" / "0").write_text(f'v1\n{{"conf":{{}}}}\n{offset}')
        (root / "commits" / "0").write_text("v1\n{}")
    return JobTables(job)


def test_a_job_that_has_not_begun_lacks_existing_rows_alone(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, has_begun=False)
    assert tables.purpose(WHOLE) is Purpose.COMPLETE
    assert not tables.is_complete(WHOLE)
    assert tables.unseen([], None) == ()


def test_what_a_job_has_of_a_table_decides(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, has_begun=True)
    purposes = {name.table: tables.purpose(name) for name in (WHOLE, OPEN, LACKING, ASIDE, REFUSED, NEW)}
    assert purposes == {
        "whole": Purpose.RESYNC,  # somebody asks for it although it is complete
        "open": Purpose.COMPLETE,
        "lacking": Purpose.RESYNC,
        "aside": Purpose.RESYNC,
        "refused": Purpose.RESYNC,
        "new": Purpose.RESYNC,
    }
    assert [name for name in (WHOLE, OPEN, LACKING, ASIDE, REFUSED, NEW) if tables.is_complete(name)] == [WHOLE]
    assert [name for name in (WHOLE, OPEN, ASIDE, REFUSED) if tables.is_set_aside(name)] == [ASIDE, REFUSED]


def test_tables_that_the_server_does_not_show_are_named(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, has_begun=True)
    assert tables.unseen([WHOLE, OPEN, ASIDE, REFUSED], None) == ("shop.lacking",)
    assert tables.unseen([], r"shop\.(open|new)") == ("shop.open",)


@pytest.mark.server
def test_tables_are_asked_for_in_any_case_where_the_server_folds_names(tmp_path: Path) -> None:
    """`--tables` of `snapshot`, `prove` and `prove --against`, as `select` of the job."""
    with mariadb_server_in(tmp_path / "server", options=("--lower-case-table-names=1",)) as server:
        run_sql(server, ["CREATE DATABASE Shop", "CREATE TABLE Shop.Items (id INT PRIMARY KEY)"])
        path = job_file(tmp_path, server.binlog_directory, r"select = 'Shop\..*'")
        path.write_text(path.read_text().replace("[sink]", "lowerCaseTableNames = 1\n[sink]"))
        job, asked, found = load_job(path), "Shop[.]Items", TableName("shop", "items")
        with session_on(server) as session:
            assert plan_definitions(session, job, asked) == (found,)
            assert [planned.table.name for planned in plan_reading(session, job, tables=asked).tables] == [found]
            assert [planned.table.name for planned in make_plan(session, job, tables=asked).tables] == [found]
        (result,) = JobProof(job, lambda: session_on(server), lambda _: None, lambda _: None).prove(asked)
        assert (result.table, result.outcome) == ("shop.items", ProofOutcome.NOT_COMPARED)
