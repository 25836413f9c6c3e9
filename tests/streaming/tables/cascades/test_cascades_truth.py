"""Rows that foreign keys changed on a real server and no log has: `foreign_keys = "apply"` makes them as they were."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.settings.choices import OnStatement, TableFormat
from tests.streaming.replay_runs import job_for, replay, rows_at, rows_of, run
from tests.truth.truth_case import case

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from binlog_streaming.settings.model import Job
    from tests.truth.truth_case import Case

CASES = tuple(f"mariadb-10.11/{name}" for name in ("ops", "ops_compressed", "ops_nochecksum", "ops_minimal"))
CHILDREN = ("t.chi", "t.chn")
RULE: dict[str, Any] = {"select": r"t\.(par|chi|chn)", "foreign_keys": "apply"}
PLACES = [*((name, TableFormat.DELTA) for name in CASES), (CASES[0], TableFormat.ICEBERG)]

Row = tuple[int | None, ...]


def is_derived(mark: str | None) -> bool:
    """Whether the server has the change, and its log does not."""
    return "done by the foreign key" in (mark or "")


def integers(row: Sequence[object] | None) -> Row | None:
    return None if row is None else tuple(None if value is None else int(str(value)) for value in row)


def true_changes(truth: Case, table: str) -> list[tuple[object, ...]]:
    """GTID, kind, columns and whether a foreign key did it, of each row of a changelog."""
    kinds = {"insert": ("", "insert"), "delete": ("delete", ""), "update": ("update_preimage", "update_postimage")}
    found = []
    for one in truth.changes:
        if one.table == table and not one.is_undone:
            for kind, row in zip(kinds[one.op], (integers(one.before), integers(one.after)), strict=True):
                if row is not None:
                    found.append((one.gtid, kind, *row, is_derived(one.mark)))
    return sorted(found, key=repr)


def held(job: Job, place: str) -> list[dict[str, object]]:
    uri = f"{job.sink.directory}/{place}"
    with closing(sink_type(job.sink.format).at(job.sink, uri)) as target:
        rows: list[dict[str, object]] = target.read().read_all().to_pylist()
    return rows


def test_the_server_changed_rows_that_the_log_does_not_have() -> None:
    for name in CASES:
        derived = [one.table for one in case(name).changes if is_derived(one.mark)]
        assert sorted(derived) == ["t.chi"] * 5 + ["t.chn"]


@pytest.mark.thorough_where("ops_(compressed|nochecksum)")
@pytest.mark.parametrize(("name", "table_format"), [one for one in PLACES if case(one[0]).has_full_images])
def test_changelog_has_each_change_of_the_server_and_scd2_each_version(
    tmp_path: Path, name: str, table_format: TableFormat
) -> None:
    truth = case(name)
    targets: dict[str, Any] = {"mode": ["changelog", "scd2"], "target": "{mode}/{table}", "on_drop": OnStatement.IGNORE}
    job = job_for(tmp_path, name, bytes_max="6k", table_format=table_format, **RULE, **targets)
    assert run(job) > 5
    for table in CHILDREN:
        wanted = true_changes(truth, table)
        short = table.removeprefix("t.")
        changelog = [
            (row["_gtid"], row["_change_type"], row["id"], row["pid"], row["_cascaded_from"] == "t.par")
            for row in held(job, f"changelog/{short}")
        ]
        assert sorted(changelog, key=repr) == wanted
        versions = held(job, f"scd2/{short}")
        begun = [row for _, kind, *row, _ in wanted if kind in ("insert", "update_postimage")]
        ended = [row for _, kind, *row, _ in wanted if kind in ("delete", "update_preimage")]
        assert sorted(([row["id"], row["pid"]] for row in versions), key=repr) == sorted(begun, key=repr)
        past = [[row["id"], row["pid"]] for row in versions if not row["_is_current"]]
        assert sorted(past, key=repr) == sorted(ended, key=repr)


@pytest.mark.thorough_where("ops_(compressed|nochecksum)")
@pytest.mark.parametrize(("name", "table_format"), PLACES)
def test_mirror_is_what_the_server_had_after_each_transaction_that_foreign_keys_carried_on(
    tmp_path: Path, name: str, table_format: TableFormat
) -> None:
    truth = case(name)
    gtids = list(dict.fromkeys(str(one.gtid) for one in truth.changes if is_derived(one.mark)))
    assert len(gtids) == 3
    for gtid in gtids:
        folder = tmp_path / gtid
        job = job_for(folder, name, bytes_max="40k", table_format=table_format, **RULE)
        assert replay(job, end=gtid, directory=folder / "replayed") > 0
        for table in CHILDREN:
            found = [tuple(row.values()) for row in rows_of(folder / "replayed", table).to_pylist()]
            wanted = [integers(row) for row in rows_at(truth, table, gtid)]
            assert sorted(found, key=repr) == sorted(wanted, key=repr), (gtid, table)
