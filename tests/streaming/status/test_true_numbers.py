"""Numbers of the state that are true, or not shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from binlog_connector.schema.definitions import TableName
from binlog_streaming.job_state.progress import BatchProgress, TableProgress
from binlog_streaming.job_state.record import JobRecord
from binlog_streaming.plan.job_state import SetAside
from binlog_streaming.settings import parse_job
from binlog_streaming.status.tallies import KnownTables, TableTallies
from tests.streaming.status.states import NOW, table_progress

NAMES = st.text(st.sampled_from("a.`b"), min_size=1, max_size=6)
PLAIN = table_progress()


def batch_of(*tables: TableProgress) -> BatchProgress:
    return BatchProgress(batch_id=7, tables=tables, seconds=0.2, finished_at=NOW, bytes_behind=None)


@given(NAMES, NAMES, NAMES, NAMES)
def test_names_of_tables_are_told_apart(database: str, table: str, other_database: str, other_table: str) -> None:
    name, other = TableName(database, table), TableName(other_database, other_table)
    assert TableName.parse(str(name)) == name
    assert (str(name) == str(other)) is (name == other)


def test_two_tables_are_two_rows() -> None:
    tallies = TableTallies(())
    names = [TableName("evil", "a.b"), TableName("evil.a", "b")]
    tallies.take_batch(batch_of(*(replace(PLAIN, source_table=str(name)) for name in names)))
    assert [table.name for table in tallies.tables(None, "")] == ["`evil.a`.b", "evil.a.b"]


def test_time_of_nothing_is_no_time() -> None:
    for commit_time in (0, 1, 86_400):  # none, and what SET TIMESTAMP has stated
        batch = batch_of(replace(PLAIN, commit_time=commit_time))
        assert batch.commit_time is None
        tallies = TableTallies(())
        tallies.take_batch(batch)
        (table,) = tallies.tables(None, "")
        assert table.last_commit is None
        tallies.take_topic("t", 1, 1, commit_time)
        assert tallies.tables(None, "")[-1].last_commit is None


def test_schema_changes_are_those_of_statements_that_change_it() -> None:
    tallies = TableTallies(())
    tallies.take_batch(batch_of(replace(PLAIN, statements=1)))  # TRUNCATE, a mark of `prove`
    assert tallies.tables(None, "")[0].schema_changed_at is None
    tallies.take_batch(batch_of(replace(PLAIN, statements=1, schema_changes=1)))
    assert tallies.tables(None, "")[0].schema_changed_at == NOW


def test_table_that_is_set_aside_is_complete_up_to_nothing_known() -> None:
    text = 'checkpoint = "c"\n[source]\npath = "log"\n[[tables]]\n[sink]\ndirectory = "t"\n'
    record = JobRecord.of(parse_job(text, file=Path("job.toml")))
    stopped = SetAside(database="shop", table="items", position="1:2:3", gtid="0-1-9", reason="it cannot be read")
    known = KnownTables(msgspec.structs.replace(record, set_aside=(stopped,)))
    (table,) = TableTallies(()).tables(known, "0-1-20")
    assert (table.gtid, table.stopped_before, table.set_aside) == ("", "0-1-9", "it cannot be read")
