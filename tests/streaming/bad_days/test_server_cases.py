"""The cases of the server corpus through the real job: every table is equal to the server's, or is named."""

from __future__ import annotations

import csv
import gzip
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.corpus import SERVER_CASES
from tests.streaming.bad_days.verdicts import Kind, ServerTable, judge, read_targets
from tests.streaming.bad_days.week import run_job
from tests.truth.truth_case import FINAL_TABLES, case

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.streaming.bad_days.verdicts import Verdict

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CASES = sorted(f"{path.parent.parent.name}/{path.parent.name}" for path in SERVER_CASES.glob("*/*/expected.json*"))
OLTP_COLUMNS: list[dict[str, str | None]] = [
    {"name": "id", "type": "int", "column_type": "int(11)", "charset": None},
    {"name": "k", "type": "int", "column_type": "int(11)", "charset": None},
    {"name": "c", "type": "char", "column_type": "char(120)", "charset": "utf8mb4"},
    {"name": "pad", "type": "char", "column_type": "char(60)", "charset": "utf8mb4"},
]


VERSIONED = {"t.sv", "t.sv2", "t.sv3"}


def test_there_are_all_cases() -> None:
    assert len(CASES) >= 24
    assert {name.partition("/")[0] for name in CASES} == {"mariadb-10.11", "mariadb-11.8", "mysql-9"}


@pytest.mark.thorough_where("oltp|rotation|huge|json|encr|ops_|types_[mno]|mysql.*(types|torn)|10.*ops")
@pytest.mark.parametrize("name", CASES)
def test_every_table_is_equal_or_named(spark: SparkSession, tmp_path: Path, name: str) -> None:
    found = verdicts(spark, tmp_path / "aside", name, on_error="set_aside")
    told = {table: f"{verdict.kind}: {verdict.why}" for table, verdict in found.items()}
    assert Kind.WRONG not in {verdict.kind for verdict in found.values()}, told
    named = {table: verdict for table, verdict in found.items() if verdict.kind is not Kind.EQUAL}
    if not named:
        return
    # The same log stops a job that does not set tables aside, with an error about one of them or about the log.
    stopped = verdicts(spark, tmp_path / "stopped", name)
    assert {verdict.kind for verdict in stopped.values()} == {Kind.REFUSED}, told
    reason = next(iter(stopped.values())).why
    # It may be one that the server does not have in the end.
    assert re.search(r"\b(t|sb|other)\.\w+", reason) or str(tmp_path / "stopped" / "log") in reason, reason


def verdicts(spark: SparkSession, folder: Path, name: str, **settings: object) -> dict[str, Verdict]:
    """What a job makes of a case; of a killed server's log first as it lay then, and again after recovery."""
    log = folder / "log"
    for state in (SERVER_CASES / name, SERVER_CASES / name / "after_recovery"):
        if not state.is_dir():
            continue
        shutil.copytree(state, log, dirs_exist_ok=True)
        end = run_job(
            {
                "source": {"path": str(log)},
                "sink": {"directory": str(folder / "tables")},
                "checkpoint": str(folder / "checkpoint"),
                "tables": [{"on_drop": "apply"}],  # tables that the server does not have in the end have no rows
                **settings,
            },
            folder,
            spark,
        )
    found = judge(end, expected(name), read_targets(folder / "tables"), is_declared=True)
    # Of versioned tables the truth has the rows alone that hold now, the log has all.
    return {table: verdict for table, verdict in found.items() if table not in VERSIONED}


def expected(name: str) -> dict[str, ServerTable]:
    """What the server had in the end."""
    if name in FINAL_TABLES:
        return {
            f"sb.{path.name.removesuffix('.csv.gz')}": dumped(path) for path in (SERVER_CASES / name).glob("*.csv.gz")
        }
    truth = case(name)
    last = len(truth.steps)
    return {table: ServerTable(list(truth.schema_at(table, last).columns), rows) for table, rows in truth.final.items()}


def dumped(path: Path) -> ServerTable:
    """A table that the server dumped as CSV."""
    with gzip.open(path, "rt", newline="") as file:
        _, *rows = csv.reader(file)
    texts = [[number, k, {"hex": c.encode().hex()}, {"hex": pad.encode().hex()}] for number, k, c, pad in rows]
    return ServerTable(OLTP_COLUMNS, texts)
