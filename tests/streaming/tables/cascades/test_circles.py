"""Foreign keys that lead in a circle through several tables: targets are the server's, wherever a job is cut off."""

from __future__ import annotations

import errno
import re
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_connector.crash_points import watched
from binlog_connector.schema.definitions import TableName
from binlog_format.errors import TableError, UnsupportedError
from binlog_format.position import Position
from binlog_lab.demo.servers.lake_servers import BUCKET
from binlog_streaming.lake.folder_store import FolderStore
from binlog_streaming.modes.cascades import TIMES, RowChanges
from binlog_streaming.settings import Sink
from binlog_streaming.tables.batch_run import BatchRun
from binlog_streaming.tables.cascade_record import FOLDER, CascadeRecord, RecordCrashPoint
from tests.chance import examples, stride
from tests.faults.object_store import Fault, FaultyProxy, ObjectStore
from tests.faults.processes import Cut, CutAt, CutOff, CutOffSince
from tests.streaming.tables.cascades.cascade_model import CASCADE, SET_NULL, Key, LinkedTables, MemoryJob
from tests.streaming.tables.cascades.test_cascades import ALL, check
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from enum import StrEnum

    Change = tuple[str, str, int, int, int | None, int | None]

COLUMNS = {
    "city": ("id", "name"),
    "department": ("id", "head", "city"),
    "employee": ("id", "department", "boss"),
    "badge": ("id", "number"),
    "project": ("id", "department", "lead"),
    "first": ("id", "of_third"),
    "second": ("id", "of_first"),
    "third": ("id", "of_second"),
    "last": ("id", "of_third"),
}
KEYS = (
    Key("department", ("head",), "employee", ("id",), SET_NULL, CASCADE),
    Key("employee", ("department",), "department", ("id",), CASCADE, CASCADE),
    Key("employee", ("boss",), "employee", ("id",), SET_NULL),
    Key("department", ("city",), "city", ("id",), CASCADE, SET_NULL),
    Key("badge", ("id",), "employee", ("id",), CASCADE, CASCADE),
    Key("project", ("department",), "department", ("id",), SET_NULL, CASCADE),
    Key("project", ("lead",), "employee", ("id",), CASCADE, SET_NULL),
    # Of these columns others than the key are referred to, so that changes of them go round too.
    Key("second", ("of_first",), "first", ("id",), CASCADE, CASCADE),
    Key("third", ("of_second",), "second", ("of_first",), CASCADE, CASCADE),
    Key("first", ("of_third",), "third", ("of_second",), SET_NULL, CASCADE),
    Key("last", ("of_third",), "third", ("id",), CASCADE, CASCADE),
)
MODES: tuple[tuple[dict[str, object], tuple[str, ...]], ...] = (
    ({"mode": "mirror"}, ("mirror",)),
    ({"mode": "mirror", "deletes": "mark"}, ("mirror",)),
    ({"mode": ["changelog", "scd2"]}, ("scd2", "changelog")),
    ({"mode": ["scd2", "mirror", "changelog"]}, ("scd2", "mirror", "changelog")),
    ({"mode": "changelog"}, ("changelog",)),
)
RULE = {**ALL, "target": "{database}/{table}/{mode}"}
AMONG_COMMITS = partial(CutOffSince, RecordCrashPoint.KEPT)
_NUMBERS = st.integers(1, 4)
_VALUES = st.sampled_from([None, 1, 2, 3, 1, 2, 3])
_WORLDS = (list(COLUMNS)[:5], list(COLUMNS)[5:])


def _changes(tables: list[str]) -> st.SearchStrategy[list[Change]]:
    """Rows under most keys, which refer to any; then more of all kinds: so that many are there before their step."""
    rows = [st.tuples(*map(st.just, (table, "i", key, key)), _VALUES, _VALUES) for table in tables for key in (1, 2, 3)]
    others = st.tuples(
        st.sampled_from(tables), st.sampled_from("iudddd"), st.integers(1, 3), _NUMBERS, _VALUES, _VALUES
    )
    return st.tuples(st.tuples(*rows), st.lists(others, min_size=8, max_size=20)).map(lambda one: [*one[0], *one[1]])


_CHANGES = st.sampled_from(_WORLDS).flatmap(_changes)
_ACTIONS = st.sampled_from([CASCADE, CASCADE, CASCADE, SET_NULL, ""])


def play(tables: LinkedTables, changes: Sequence[Change]) -> None:
    """Do what can be done of *changes*, and what InnoDB allows: no update that comes back to its table."""
    for table, kind, key, other, one, two in changes:
        rows = tables.rows[table]
        name, *columns = tables.columns[table]
        values = dict(zip(columns, (one, two), strict=False))
        if kind == "i" and key not in rows:
            tables.insert(table, {name: key, **values})
        elif kind == "u" and key in rows:
            is_free = other not in rows and not (table == "employee" and other in tables.rows["badge"])
            tables.update(table, key, **{name: other if is_free and table != "first" else key, **values})
        elif kind == "d" and key in rows:
            tables.delete(table, key)


def written(folder: Path, story: Callable[[LinkedTables], None], keys: Sequence[Key] = KEYS) -> LinkedTables:
    """Tables of which some are there before those that their keys refer to."""
    with ShopLog(folder / "log") as log:
        tables = LinkedTables(log, COLUMNS, keys)
        tables.create()
        story(tables)
    return tables


def check_all(tables: LinkedTables, job: MemoryJob, places: Sequence[str]) -> None:
    for table in COLUMNS:
        for mode in places:
            check(tables, job, table, f"{table}/{mode}", changelog=mode == "changelog")
    assert not records(job)


def records(job: MemoryJob) -> list[Path]:
    return [path for path in (job.directory / FOLDER).rglob("*") if path.is_file()]


@given(
    changes=_CHANGES,
    actions=st.lists(_ACTIONS, min_size=len(KEYS), max_size=len(KEYS)),
    batches=st.integers(2, 8),
    cuts=st.lists(st.integers(2, 6), min_size=1, max_size=3),
    cut_off=st.sampled_from([CutOff, AMONG_COMMITS, AMONG_COMMITS]),
    mode=st.sampled_from(MODES),
)
@settings(max_examples=examples(100))
def test_targets_are_what_the_server_has_however_batches_are_cut(
    changes: list[Change],
    actions: list[str],
    batches: int,
    cuts: list[int],
    cut_off: Callable[[int], CutOff],
    mode: tuple[dict[str, object], tuple[str, ...]],
) -> None:
    keys = [
        replace(key, on_delete=action if key.columns != ("id",) else CASCADE)  # a key is never null
        for key, action in zip(KEYS, actions, strict=True)
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = written(folder, lambda tables: play(tables, changes), keys)
        job = MemoryJob(folder, {**RULE, **mode[0]})
        job.run(batches, cuts, cut_off)
        check_all(tables, job, mode[1])


def company(tables: LinkedTables) -> None:
    """Heads and departments that refer to each other, and go; one comes again in the same step."""
    for number in (1, 2, 3):
        tables.insert("city", {"id": number, "name": number})
        tables.insert("department", {"id": number, "head": None, "city": number})
        tables.insert("employee", {"id": number, "department": number, "boss": 1})
        tables.insert("badge", {"id": number, "number": 7})
        tables.insert("project", {"id": number, "department": number, "lead": 4 - number})
        tables.insert("first", {"id": number, "of_third": None})
        tables.insert("second", {"id": number, "of_first": number})
        tables.insert("third", {"id": number, "of_second": number})
        tables.update("first", number, of_third=number % 3 + 1 if number < 3 else None)
    tables.update("department", 1, head=2)
    tables.update("department", 2, head=3)
    tables.update("department", 3, head=1)
    tables.delete("city", 1)
    tables.insert("department", {"id": 1, "head": 2, "city": 2})
    tables.insert("employee", {"id": 1, "department": 1, "boss": 3})
    tables.update("department", 2, id=4)
    tables.delete("first", 2)
    tables.delete("employee", 2)


@pytest.mark.parametrize(("batches", "rule", "first"), [(1, MODES[0][0], 1), (4, MODES[3][0], 2), (1, MODES[4][0], 3)])
def test_each_step_that_is_cut_off_is_done_again_with_the_same_result(
    tmp_path: Path, batches: int, rule: dict[str, object], first: int
) -> None:
    tables = written(tmp_path, company)
    (places,) = (places for one, places in MODES if one is rule)
    for cut in range(min(first, stride(5)), 200, stride(5)):
        job = MemoryJob(tmp_path, {**RULE, **rule})
        cuts = job.run(batches, [cut])
        check_all(tables, job, places)
        if not cuts:
            assert cut > 10
            return
    raise AssertionError("there are more steps")


def test_change_cannot_be_its_own_cause(tmp_path: Path) -> None:
    def story(tables: LinkedTables) -> None:
        for number, head, city in ((8, None, None), (9, 8, None), (5, None, None), (1, 1, 7)):
            tables.insert("department", {"id": number, "head": head, "city": city})
        for number, department in ((8, 8), (7, 9), (1, 1)):
            tables.insert("employee", {"id": number, "department": department, "boss": None})
        tables.insert("city", {"id": 5, "name": 7})
        # At several levels this ends what would carry the next one on, to two rows of which each would go with the
        # other: in the first rounds they do.
        tables.delete("department", 8)
        tables.delete("department", 5)

    keys = (
        Key("city", ("id",), "department", ("id",), CASCADE),
        Key("city", ("name",), "employee", ("id",), SET_NULL),
        Key("department", ("city",), "city", ("name",), CASCADE, SET_NULL),
        Key("department", ("head",), "employee", ("id",), CASCADE),
        Key("employee", ("department",), "department", ("id",), CASCADE),
    )
    tables = written(tmp_path, story, keys)
    assert tables.rows["department"] == {1: {"id": 1, "head": 1, "city": None}}
    job = MemoryJob(tmp_path, {**RULE, "mode": ["mirror", "changelog"]})
    job.run(1)
    check_all(tables, job, ("mirror", "changelog"))


def chain(tables: LinkedTables, length: int) -> None:
    for number in range(1, length):
        tables.insert("department", {"id": number, "head": number, "city": None})
        tables.insert("employee", {"id": number, "department": number + 1, "boss": None})
    tables.insert("department", {"id": length, "head": None, "city": None})


def test_what_goes_deeper_than_innodb_does_is_refused(tmp_path: Path) -> None:
    keys = (
        Key("department", ("head",), "employee", ("id",), CASCADE),
        Key("employee", ("department",), "department", ("id",), CASCADE),
    )

    def story(tables: LinkedTables) -> None:
        chain(tables, 8)
        tables.delete("department", 8)

    (tmp_path / "a").mkdir()
    tables = written(tmp_path / "a", story, keys)
    job = MemoryJob(tmp_path / "a", {**RULE})
    job.run(1)
    check_all(tables, job, ["mirror"])

    def deeper(tables: LinkedTables) -> None:
        chain(tables, 9)
        tables.delete("department", 9)

    (tmp_path / "b").mkdir()
    written(tmp_path / "b", deeper, keys)
    with pytest.raises(UnsupportedError, match=r"FOREIGN_KEY_CASCADE\].*more than 15 levels"):
        MemoryJob(tmp_path / "b", {**RULE}).run(1)


def test_damaged_record_is_named(tmp_path: Path) -> None:
    tables = written(tmp_path, company)
    job = MemoryJob(tmp_path, RULE)
    with watched(CutAt(RecordCrashPoint.KEPT)), pytest.raises(Cut):
        job.run(1)
    (path, *_) = records(job)
    content = path.read_bytes()
    path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    with pytest.raises(TableError, match=r"CASCADE_RECORD\].*it is damaged"):
        job.run(1)
    path.write_bytes(content)
    job.run(1)
    check_all(tables, job, ["mirror"])


def test_record_of_another_life_counts_as_none_before_the_step_is_begun(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    changes = [("city", "i"), ("department", "i"), ("city", "d")]
    written(tmp_path / "other", lambda tables: play(tables, [(*one, 1, 1, 1, 1) for one in changes]))
    other = MemoryJob(tmp_path / "other", RULE)
    with watched(CutAt(RecordCrashPoint.KEPT)), pytest.raises(Cut):
        other.run(1)
    (left,) = records(other)
    tables = written(tmp_path, company)
    job = MemoryJob(tmp_path, RULE)
    place = job.directory / left.relative_to(other.directory)
    place.parent.mkdir(parents=True)
    place.write_bytes(left.read_bytes())
    job.run(1)
    check_all(tables, job, ["mirror"])


def test_records_that_are_left_over_are_removed_by_a_later_batch(tmp_path: Path) -> None:
    tables = written(tmp_path, company)
    job = MemoryJob(tmp_path, RULE)
    folder = job.directory / FOLDER / "q-1"
    folder.mkdir(parents=True)
    (folder / "0-2-shop.employee.cascades").write_bytes(b"from a process that was taken for dead")
    job.run(9)
    check_all(tables, job, ["mirror"])


def test_another_attempt_comes_to_the_end_while_one_is_held_up(tmp_path: Path) -> None:
    tables = written(tmp_path, company)
    job, twins = MemoryJob(tmp_path, {**RULE, "mode": ["mirror", "changelog"]}), 0

    def run_twin(step: StrEnum) -> None:
        nonlocal twins
        if step is RecordCrashPoint.KEPT and not twins:
            twins += 1
            job.run(1)

    with watched(run_twin):
        job.run(1)
    assert twins
    check_all(tables, job, ("mirror", "changelog"))


def test_full_disk_is_named_before_any_table_of_the_circle_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = written(tmp_path, company)
    job = MemoryJob(tmp_path, RULE)

    def full(*_: object) -> bool:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(FolderStore, "create", full)
        with pytest.raises(TableError, match=r"WRITE_FAILED\].*shop\.department.*No space left"):
            job.run(1)
    assert not job.rows("shop/department/mirror")
    job.run(1)
    check_all(tables, job, ["mirror"])


@pytest.mark.server
def test_record_in_an_object_store_is_the_first_one_whoever_comes_later(object_store: ObjectStore) -> None:
    """Also where the reply is lost, which is no record of somebody else."""
    fault = Fault(re.compile(r"PUT .*\.cascades"), loses_reply=True)
    department, employee = circle = (TableName("shop", "department"), TableName("shop", "employee"))
    rows, none = pa.table({"id": [1, 2], "head": [None, 7]}), np.zeros(2, np.int64)
    gone = RowChanges(rows, rows, np.array([True, False]), np.array([3 * TIMES, 5 * TIMES]), none, none)

    def record(batch_id: int, port: int | None = None) -> CascadeRecord:
        sink = Sink(directory=f"s3://{BUCKET}/circles", storage=object_store.options(port))
        return CascadeRecord.of(BatchRun("q-1", batch_id, sink, Position(1, 2, 3)), 2, circle, 9)

    assert record(3).read(is_begun=True) is None
    with FaultyProxy(object_store.port, fault) as proxy:
        kept = record(3, proxy.port).keep({department: gone, employee: None})
    assert fault.met == 1
    later = record(3).keep({department: None, employee: gone})
    for found in (kept, later, record(3).read(is_begun=True) or {}):
        changes = found[department]
        assert changes is not None
        assert changes.equals(gone)
        assert found[employee] is None
    record(4).keep({department: None, employee: None})
    record(4).remove()
    assert record(3).read(is_begun=True) is None
    assert record(4).read(is_begun=True) is None
