"""Dates as texts, `zeroDates = "text"`: zero dates in keys tell rows apart, and nothing of them is lost."""

from __future__ import annotations

import json
import shutil
import tarfile
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest

from binlog_format.rows.decoding import ZeroDates
from binlog_streaming.jobs.check import check_job
from binlog_streaming.settings import TableFormat
from tests.judge.running import mirror_of, run_once
from tests.judge.tables import read_targets
from tests.judge.test_reported import ARCHIVE

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_streaming.settings import Job

pytestmark = pytest.mark.usefixtures("shown_values")

# MariaDB 10.11, keys with zero dates: k (id INT, d DATE, v INT, PRIMARY KEY (id, d)), ts (t TIMESTAMP PRIMARY KEY, v).
CASE = "zero_date_key"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        wanted = [member for member in archive.getmembers() if member.name.startswith(f"reported/{CASE}/")]
        archive.extractall(tmp_path, members=wanted, filter="data")
    shutil.copytree(tmp_path / "reported" / CASE, tmp_path / "log")
    return tmp_path / "log"


def job_of(
    log: Path, zero_dates: ZeroDates, mode: str = "mirror", table_format: TableFormat = TableFormat.DELTA
) -> Job:
    job = mirror_of(log, log.parent / "lake", rule={"mode": mode}, table_format=table_format)
    return msgspec.structs.replace(job, source=msgspec.structs.replace(job.source, zero_dates=zero_dates))


def rows_of(job: Job) -> dict[str, list[dict[str, Any]]]:
    tables = {name: table.content for name, table in read_targets(job.sink).items()}
    for table, column in (("w.k", "d"), ("w.ts", "t")):
        assert tables[table].schema.field(column).type in (pa.string(), pa.large_string(), pa.string_view())
    return {name: table.to_pylist() for name, table in tables.items()}


@pytest.mark.parametrize("table_format", [TableFormat.DELTA, TableFormat.ICEBERG])
def test_tables_with_zero_dates_in_keys_are_those_of_the_server(log: Path, table_format: TableFormat) -> None:
    job = job_of(log, ZeroDates.TEXT, table_format=table_format)
    end = run_once(job)
    assert (end.error, end.crash) == ("", "")
    final = json.loads((log / "final.json").read_text())
    for name, rows in rows_of(job).items():
        held = sorted([str(value) for value in row.values()] for row in rows)
        assert held == sorted(final[name]["rows"])


def test_versions_have_zero_dates_in_keys(log: Path) -> None:
    job = job_of(log, ZeroDates.TEXT, "scd2")
    end = run_once(job)
    assert (end.error, end.crash) == ("", "")
    versions = [(row["t"], row["v"], row["_is_current"]) for row in rows_of(job)["w.ts"]]
    assert sorted(versions) == [
        ("0000-00-00 00:00:00", 1, False),
        ("0000-00-00 00:00:00", 5, True),
        ("2024-01-01 00:00:00", 2, True),
    ]


def test_check_warns_of_dates_that_a_key_cannot_hold(log: Path) -> None:
    def warnings(zero_dates: ZeroDates, mode: str = "mirror") -> str:
        job = job_of(log, zero_dates, mode)
        return "\n".join(text for table in check_job(job).tables for text in table.warnings)

    told = warnings(ZeroDates.NULL)
    assert "w.k: dates that no calendar has in the key column d (the first is 0000-00-00)" in told
    assert "w.ts: dates that no calendar has in the key column t (the first is 0000-00-00 00:00:00)" in told
    assert 'zeroDates = "text"' in told
    assert "no calendar" not in warnings(ZeroDates.TEXT) + warnings(ZeroDates.NULL, "changelog")
    assert "w.k: dates that no calendar has in d (the first is 0000-00-00): a job stops there" in warnings(
        ZeroDates.ERROR, "changelog"
    )


def test_the_error_names_the_way(log: Path) -> None:
    end = run_once(job_of(log, ZeroDates.NULL))
    assert "NULL_KEY" in end.error
    assert 'zeroDates = "text"' in end.error
