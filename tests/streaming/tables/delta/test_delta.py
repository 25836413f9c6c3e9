from __future__ import annotations

import itertools
import shutil
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from binlog_format.errors import TableError
from binlog_streaming.lake.delta import log, maintenance
from binlog_streaming.lake.delta.maintenance import vacuum
from binlog_streaming.lake.delta.target import STEP_BITS, DeltaTarget
from binlog_streaming.lake.evolution import SchemaChange
from binlog_streaming.lake.folder_store import FolderStore
from binlog_streaming.lake.table_places import target_uri
from binlog_streaming.lake.target import SMALL_FILES_MIN
from binlog_streaming.settings import Mode, Sink
from tests.streaming.tables.delta.full_disk import on_a_full_disk
from tests.streaming.tables.lake.sink_cases import COMMIT_ID, INT_KEY, MIRROR_COMMIT_ID, change_of, numbers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from binlog_streaming.lake.commit_id import CommitId


def find(uri: str) -> DeltaTarget:
    return DeltaTarget.at(Sink(directory=""), uri)


def append(uri: str, commit_id: CommitId, ids: list[int]) -> None:
    target = find(uri)
    target.create(INT_KEY, commit_id)
    target.append(numbers(*ids).to_reader(), commit_id)


STEPS = 1 << STEP_BITS
"""Between the versions of two batches' application transactions."""


def test_columns_may_always_be_null(tmp_path: Path) -> None:
    """A zero date is null in a NOT NULL column."""
    schema = pa.schema([pa.field("day", pa.date32(), nullable=False)])
    target = find(str(tmp_path))
    target.create(schema, COMMIT_ID)
    target.append(pa.table({"day": pa.array([None], pa.date32())}).to_reader(), COMMIT_ID)
    assert DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist() == [{"day": None}]


def test_inexact_statistics_are_not_written(tmp_path: Path) -> None:
    """A reader that trusted them would skip the file that holds the row."""
    schema = pa.schema([("id", pa.decimal128(20, 0)), ("n", pa.int32())])
    target = find(str(tmp_path))
    target.create(schema, COMMIT_ID)
    rows = pa.table({"id": [Decimal(2**64 - 1)], "n": [1]}, schema=schema)
    target.append(rows.to_reader(), COMMIT_ID)
    (file,) = pa.table(DeltaTable(str(tmp_path)).get_add_actions(flatten=True)).to_pylist()
    assert file.get("min.id") is None
    assert file["min.n"] == 1
    assert DeltaTable(str(tmp_path)).count() == 1


def test_commit_remembers_batch_and_position(tmp_path: Path) -> None:
    append(str(tmp_path), COMMIT_ID, [1])
    (last,) = DeltaTable(str(tmp_path)).history(1)
    remembered = {key: value for key, value in last.items() if key.startswith("binlog-stream.")}
    assert remembered == {
        "binlog-stream.batchId": "0",
        "binlog-stream.step": "0",
        "binlog-stream.position": "0:12:3",
        "binlog-stream.lastChange": "0:11:2:5",
        "binlog-stream.gtid": "0-1-7",
    }
    assert find(str(tmp_path)).is_done(COMMIT_ID)
    assert not find(str(tmp_path)).is_done(replace(COMMIT_ID, batch_id=1))


@pytest.mark.parametrize(
    "older",
    [replace(COMMIT_ID, batch_id=2), replace(COMMIT_ID, batch_id=3, last_change="0:99:0:0")],
    ids=["earlier batch", "same number, other content"],
)
def test_checkpoint_older_than_the_table_is_refused(tmp_path: Path, older: CommitId) -> None:
    """A checkpoint from a backup plans its batches anew: skipping them would leave changes out."""
    for batch_id in range(4):
        append(str(tmp_path), replace(COMMIT_ID, batch_id=batch_id), [batch_id])
    DeltaTable(str(tmp_path)).optimize.compact()
    with pytest.raises(
        TableError, match=r"CHECKPOINT_BEHIND\] shop\.orders: .* holds batch 3.* at batch \d: "
    ) as caught:
        find(str(tmp_path)).is_done(older)
    assert caught.value.hint is not None
    assert find(str(tmp_path)).is_done(replace(COMMIT_ID, batch_id=3))


def test_versions_of_the_application_transaction_grow_with_batch_and_step(tmp_path: Path) -> None:
    """Also beyond 32 bits each, as one number of 64 bits."""
    append(str(tmp_path), COMMIT_ID, [1])
    versions: list[int] = []
    for place in ((0, 1), (0, 2**20), (1, 0), (1, 2**32 - 1), (2**31 - 1, 2**32 - 1)):
        commit_id = replace(COMMIT_ID, batch_id=place[0], step=place[1])
        append(str(tmp_path), commit_id, [2])
        versions.append(DeltaTable(str(tmp_path)).transaction_version("binlog-stream/q-1") or 0)
        applied = find(str(tmp_path)).applied(commit_id)
        assert applied is not None
        assert applied.place == place
    assert versions == sorted(set(versions))
    assert versions[-1] == 2**63 - 1


NOTE = pa.schema([("note", pa.string())])
ADDED = SchemaChange(added=NOTE)
RENAMED = SchemaChange(renamed={"value": "name"}, added=NOTE, filled={"note": pa.scalar("n")})


@pytest.mark.parametrize(
    ("write", "columns"),
    [
        (lambda target, commit_id: target.evolve(ADDED, commit_id), ["id", "value", "note"]),
        (lambda target, commit_id: target.evolve(RENAMED, commit_id), ["id", "name", "note"]),
        (lambda target, commit_id: target.replace(NOTE.empty_table().to_reader(), commit_id), ["note"]),
        (lambda target, commit_id: target.merge(change_of([(1, "y")], [2]), commit_id), ["id", "value"]),
    ],
    ids=["added", "written anew", "replaced", "merged"],
)
def test_a_step_is_one_commit_and_the_version_before_stays_readable(
    tmp_path: Path, write: Callable[[DeltaTarget, CommitId], object], columns: list[str]
) -> None:
    """Columns, rows, and what the commit says of itself, all at once."""
    append(str(tmp_path), MIRROR_COMMIT_ID, [1, 2])
    target = find(str(tmp_path))
    before = DeltaTable(str(tmp_path))
    step = replace(MIRROR_COMMIT_ID, batch_id=3, step=5)
    write(target, step)
    after = DeltaTable(str(tmp_path))
    assert after.version() == before.version() + 1
    assert after.to_pyarrow_table().column_names == columns
    assert after.transaction_version("binlog-stream/q-1") == 3 * STEPS + 5
    assert step.batch_properties().items() <= after.history(1)[0].items()
    assert after.metadata().configuration == before.metadata().configuration
    assert after.metadata().name == "shop.orders"
    old = DeltaTable(str(tmp_path), version=before.version()).to_pyarrow_table()
    assert old.equals(numbers(1, 2))


def test_columns_that_are_only_added_leave_the_files_alone(tmp_path: Path) -> None:
    append(str(tmp_path), COMMIT_ID, [1])
    target = find(str(tmp_path))
    files = DeltaTable(str(tmp_path)).file_uris()
    target.evolve(ADDED, replace(COMMIT_ID, batch_id=1))
    assert DeltaTable(str(tmp_path)).file_uris() == files


def test_comments_of_columns_survive_that_the_table_is_written_anew(tmp_path: Path) -> None:
    append(str(tmp_path), COMMIT_ID, [1])
    DeltaTable(str(tmp_path)).alter.set_column_metadata("id", {"comment": "the key"})
    find(str(tmp_path)).evolve(RENAMED, replace(COMMIT_ID, batch_id=1))
    assert DeltaTable(str(tmp_path)).schema().fields[0].metadata == {"comment": "the key"}


@pytest.mark.parametrize(
    "write",
    [
        lambda target, commit_id: target.evolve(RENAMED, commit_id),
        lambda target, commit_id: target.replace(target.read(), commit_id),
        lambda target, commit_id: target.merge(change_of([(1, "y")], [2]), commit_id),
    ],
    ids=["written anew", "replaced", "merged"],
)
def test_what_another_writer_appended_since_the_look_is_not_lost_or_doubled(
    tmp_path: Path, write: Callable[[DeltaTarget, CommitId], object]
) -> None:
    """By its own rules Delta would let it pass; but what was read is not what is there."""
    append(str(tmp_path), MIRROR_COMMIT_ID, [1, 2])
    target = find(str(tmp_path))
    write_deltalake(str(tmp_path), numbers(1), mode="append")
    with pytest.raises(Exception, match="transaction") as caught:
        write(target, replace(MIRROR_COMMIT_ID, batch_id=1))
    assert target.is_conflict(caught.value)
    assert DeltaTable(str(tmp_path)).count() == 3


def test_a_full_disk_is_a_write_error_and_nothing_is_committed(tmp_path: Path) -> None:
    append(str(tmp_path), MIRROR_COMMIT_ID, [1, 2])
    on_a_full_disk(
        tmp_path,
        """[
            (100000, lambda target: target.append(rows.to_reader(), commit_id)),
            (100000, lambda target: target.merge(Change(rows, none), commit_id)),
            (100000, lambda target: target.replace(rows.to_reader(), commit_id)),
            (500, lambda target: target.evolve(note, commit_id)),
            (500, lambda target: target.set_properties(commit_id, recorded={"binlog-stream.dropped": "0:0:0"})),
        ]""",
    )
    append(str(tmp_path), replace(MIRROR_COMMIT_ID, batch_id=1), [3])
    assert DeltaTable(str(tmp_path)).count() == 3


def test_table_not_made_by_us_is_refused(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"id": [1]}))
    with pytest.raises(TableError, match=r"OTHER_WRITER\] .* by somebody else"):
        find(str(tmp_path)).check_owner(COMMIT_ID)


@pytest.mark.parametrize(
    ("database", "table", "path"),
    [
        ("shop", "orders", "shop/orders"),
        ("a/b", "..", "a@002fb/@002e@002e"),
        ("Größe", "x 😀%y", "Gr@00f6@00dfe/x@0020@d83d@de00@0025y"),
    ],
)
def test_names_cannot_leave_the_directory(database: str, table: str, path: str, tmp_path: Path) -> None:
    uri = target_uri(f"{tmp_path}/", "{database}/{table}", database=database, table=table, mode=Mode.MIRROR)
    assert uri == f"{tmp_path}/{path}"
    append(uri, COMMIT_ID, [1])
    assert (tmp_path / path / "_delta_log").is_dir()
    assert find(uri).is_done(COMMIT_ID)


def test_small_files_are_joined_and_old_ones_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "VACUUM_EVERY", 40)
    sink = Sink(directory=str(tmp_path), retention="0s")
    for batch_id in range(60):
        append(str(tmp_path), replace(COMMIT_ID, batch_id=batch_id), [batch_id])
        find(str(tmp_path)).maintain(sink)
    table = DeltaTable(str(tmp_path))
    assert len(table.file_uris()) <= 2 * SMALL_FILES_MIN
    assert sorted(row["id"] for row in table.to_pyarrow_table().to_pylist()) == list(range(60))
    assert len(list(tmp_path.glob("*.parquet"))) < 60
    assert table.transaction_version("binlog-stream/q-1") == 59 * STEPS


def checkpoints_of(folder: Path) -> list[int]:
    return sorted(int(path.name.partition(".")[0]) for path in folder.glob("_delta_log/*.checkpoint.parquet"))


def test_a_checkpoint_comes_every_16_commits(tmp_path: Path) -> None:
    """Whoever looks: each batch has a look of its own, and several processes write the table in turn."""
    sink, processes = Sink(directory=str(tmp_path)), [dict[str, log.TableLog](), dict[str, log.TableLog]()]
    for batch_id in range(100):
        log._kept.clear()
        log._kept.update(processes[batch_id % 2])
        append(str(tmp_path), replace(COMMIT_ID, batch_id=batch_id), [batch_id])
        find(str(tmp_path)).maintain(sink)
        processes[batch_id % 2] = dict(log._kept)
    made = checkpoints_of(tmp_path)
    gaps = [later - earlier for earlier, later in itertools.pairwise([0, *made])]
    assert set(gaps) <= {15, 16, 17}, made  # two commits may follow each other without a look
    assert DeltaTable(str(tmp_path)).version() - made[-1] < 17
    assert sorted(find(str(tmp_path)).read().read_all().column("id").to_pylist()) == list(range(100))


def test_a_part_of_a_checkpoint_is_passed_over_and_replaced(tmp_path: Path) -> None:
    """A loss of power may leave one: deltalake does not force it to the disk."""
    sink = Sink(directory=str(tmp_path))
    for batch_id in range(40):
        append(str(tmp_path), replace(COMMIT_ID, batch_id=batch_id), [batch_id])
        find(str(tmp_path)).maintain(sink)
    newest = checkpoints_of(tmp_path)[-1]
    path = tmp_path / "_delta_log" / f"{newest:020}.checkpoint.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    log._kept.clear()
    append(str(tmp_path), replace(COMMIT_ID, batch_id=40), [40])
    find(str(tmp_path)).maintain(sink)
    assert not path.exists()
    assert checkpoints_of(tmp_path)[-1] == DeltaTable(str(tmp_path)).version()
    assert sorted(DeltaTable(str(tmp_path)).to_pyarrow_table().column("id").to_pylist()) == list(range(41))


@pytest.mark.parametrize("commits", [1, 2, 3])
def test_old_files_go_however_many_commits_a_batch_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    """A look that comes after every second commit meets even versions alone."""
    runs: list[int] = []
    monkeypatch.setattr(maintenance, "VACUUM_EVERY", 40)
    monkeypatch.setattr(maintenance, "vacuum", lambda _, held, **__: runs.append(held.version))
    for batch_id in range(120 // commits):
        for step in range(commits):
            append(str(tmp_path), replace(COMMIT_ID, batch_id=batch_id, step=step), [batch_id])
        look = find(str(tmp_path))
        maintenance.maintain(look.store, look.log, Sink(directory=str(tmp_path), target_file_size=1))
    assert [version // 40 for version in runs] == [1, 2, 3][: len(runs)]
    assert len(runs) >= 2


def test_a_checkpoint_of_many_files_comes_more_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "CHECKPOINT_FILES", 1)
    for batch_id in range(60):
        append(str(tmp_path), replace(COMMIT_ID, batch_id=batch_id), [batch_id])
        look = find(str(tmp_path))
        maintenance.checkpoint(look.store, look.log, Sink(directory=str(tmp_path)))
    assert checkpoints_of(tmp_path) == []


def test_checkpoints_with_newer_ones_go_but_one_of_each_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for batch_id in range(50):
        append(str(tmp_path), replace(COMMIT_ID, batch_id=batch_id), [batch_id])
        if batch_id % 5 == 4:
            DeltaTable(str(tmp_path)).create_checkpoint()
    look = find(str(tmp_path))
    look.log.checkpoint = 50
    maintenance.remove_checkpoints(look.store, look.log)
    assert checkpoints_of(tmp_path) == list(range(5, 51, 5)), "somebody may be about to read them"
    monkeypatch.setattr(maintenance, "CHECKPOINT_AGE_S", -1)
    monkeypatch.setattr(maintenance, "CHECKPOINT_BLOCK", 20)
    maintenance.remove_checkpoints(look.store, look.log)
    assert checkpoints_of(tmp_path) == [5, 20, 40, 50]
    for version in (50, 47, 20, 3):
        rows = DeltaTable(str(tmp_path), version=version).to_pyarrow_table()
        assert rows.num_rows == version, "older versions stay readable"


@pytest.mark.parametrize(
    ("retention", "files", "commits"), [("7d", 604800, 604800), ("90m", 5400, 86400), ("30d", 2592000, 2592000)]
)
def test_a_table_states_how_long_its_log_is_kept(tmp_path: Path, retention: str, files: int, commits: int) -> None:
    sink = Sink(directory=str(tmp_path), retention=retention)
    DeltaTarget.at(sink, str(tmp_path / "table")).create(INT_KEY, COMMIT_ID)
    table = DeltaTable(str(tmp_path / "table"))
    configuration = table.metadata().configuration
    assert configuration["delta.deletedFileRetentionDuration"] == f"interval {files} seconds"
    assert configuration["delta.logRetentionDuration"] == f"interval {commits} seconds"
    table.create_checkpoint()
    table.cleanup_metadata()  # deltalake understands them


class TestKeptLog:
    """A process that has looked at a table before reads new commits only; it never takes an old table for a new one."""

    def test_only_new_commits_are_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for batch_id in range(3):
            append(str(tmp_path), replace(COMMIT_ID, batch_id=batch_id), [batch_id])
        find(str(tmp_path))
        read: list[str] = []
        monkeypatch.setattr(log, "read_log", lambda store: read.append(store.uri))
        write_deltalake(str(tmp_path), numbers(9), mode="append")
        target = find(str(tmp_path))
        assert target.log.version == DeltaTable(str(tmp_path)).version()
        assert len(target.log.files) == 4
        assert read == []

    def test_a_table_that_was_made_anew_is_another_one(self, tmp_path: Path) -> None:
        uri = str(tmp_path / "table")
        append(uri, COMMIT_ID, [1])
        find(uri)
        shutil.rmtree(uri)
        assert not find(uri).log.is_there
        append(uri, replace(COMMIT_ID, query_id="q-2"), [2])
        find(uri)
        shutil.rmtree(uri)
        append(uri, replace(COMMIT_ID, query_id="q-3"), [3])
        assert find(uri).read().read_all().column("id").to_pylist() == [3]
        assert (find(uri).properties() or {})["binlog-stream.queryId"] == "q-3"

    def test_two_looks_do_not_know_of_each_other(self, tmp_path: Path) -> None:
        append(str(tmp_path), MIRROR_COMMIT_ID, [1])
        mine, other = find(str(tmp_path)), find(str(tmp_path))
        mine.merge(change_of([(1, "y")]), replace(MIRROR_COMMIT_ID, batch_id=1))
        with pytest.raises(DeltaError, match="another transaction"):
            other.merge(change_of([(1, "z")]), replace(MIRROR_COMMIT_ID, batch_id=1))

    def test_no_more_than_a_number_of_files_is_kept(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(log, "KEPT_FILES_MAX", 2)
        for number in range(3):
            append(str(tmp_path / str(number)), COMMIT_ID, [number])
            find(str(tmp_path / str(number)))
        assert [uri for uri in log._kept if uri.startswith(str(tmp_path))] == [str(tmp_path / "1"), str(tmp_path / "2")]


def test_files_of_a_table_within_another_one_s_place_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "ORPHAN_AGE_S", -1)
    append(str(tmp_path), COMMIT_ID, [1])
    append(str(tmp_path / "within"), COMMIT_ID, [2])
    store = FolderStore(str(tmp_path))
    orphan = tmp_path / "part-00000-00000000-0000-0000-0000-000000000000-c000.zstd.parquet"
    orphan.write_bytes(b"")
    found = log.read_log(store)
    assert found is not None
    assert vacuum(store, found, retention_hours=0) == [orphan.name]
    assert find(str(tmp_path / "within")).read().read_all().num_rows == 1
