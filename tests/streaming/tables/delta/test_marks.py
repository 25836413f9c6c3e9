"""Changes brought into Delta tables with deletion vectors: what is written, and that every reader gets the same."""

from __future__ import annotations

import json
import tarfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import DeltaError
from msgspec.structs import replace as changed

from binlog_format.errors import TableError
from binlog_streaming.lake.change import Patches
from binlog_streaming.lake.commit_id import COST_KEY, WriteCost, write_cost
from binlog_streaming.lake.delta import log as log_module
from binlog_streaming.lake.delta import maintenance
from binlog_streaming.lake.delta.actions import Vector
from binlog_streaming.lake.delta.log import read_log
from binlog_streaming.lake.delta.maintenance import CHECKPOINT_EVERY, maintain, rewrite, vacuum
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.lake.delta.vectors import DeltaVectorFile, from_z85, read_vector, to_z85, vector_file
from binlog_streaming.lake.evolution import SchemaChange
from binlog_streaming.lake.files_target import FilesTarget
from binlog_streaming.lake.folder_store import FolderStore
from binlog_streaming.lake.roaring import encoded
from binlog_streaming.settings import Merge, Sink, TableFormat
from tests.streaming.tables.delta.full_disk import on_a_full_disk
from tests.streaming.tables.delta.test_features import ARCHIVE, live_files
from tests.streaming.tables.lake.sink_cases import (
    INT_KEY,
    MIRROR_COMMIT_ID,
    Place,
    Variant,
    all_types,
    change_of,
    numbers,
    rows_of,
)

if TYPE_CHECKING:
    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.delta.actions import Add
    from binlog_streaming.lake.delta.log import TableLog

FILE_SIZE = 64 << 20
SMALL = 1000
"""For whom the files of these tables are large."""


def find(path: Path | str, merge: Merge = Merge.MARK) -> DeltaTarget:
    return DeltaTarget.at(Sink(directory="", target_file_size=FILE_SIZE, merge=merge), str(path))


def log_of(path: Path) -> TableLog:
    log = read_log(FolderStore(str(path)))
    assert log is not None
    return log


def values(path: Path) -> dict[int, str | None]:
    """What the table holds, as deltalake's queries read it."""
    rows = pa.table(QueryBuilder().register("t", DeltaTable(str(path))).execute("SELECT id, value FROM t").read_all())
    held = {row["id"]: row["value"] for row in rows.to_pylist()}
    assert len(held) == rows.num_rows
    assert {row["id"]: row["value"] for row in find(path).read().read_all().to_pylist()} == held
    return held


def bring(path: Path, change: Change, batch_id: int) -> int:
    return find(path).merge(change, replace(MIRROR_COMMIT_ID, batch_id=batch_id))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two files: the rows 0 to 9, and 100 to 109."""
    folder = tmp_path / "table"
    target = find(folder)
    target.create(INT_KEY, MIRROR_COMMIT_ID)
    for batch_id in range(2):
        rows = numbers(*range(100 * batch_id, 100 * batch_id + 10))
        target.append(rows.to_reader(), replace(MIRROR_COMMIT_ID, batch_id=batch_id))
    return folder


def marked(path: Path) -> dict[str, list[int]]:
    """Files, and the rows that are marked in them."""
    return {
        add.path: read_vector(FolderStore(str(path)), add.deletion_vector).tolist()
        for add in log_of(path).files.values()
    }


class TestMarking:
    """Files stay as they are; what is superseded is marked, what is new is in a new file, in one commit."""

    def test_rows_are_marked_and_new_ones_appended(self, path: Path) -> None:
        before = set(marked(path))
        assert bring(path, change_of([(3, "y"), (50, "n")], [5, 60]), 2) == 4
        held = dict.fromkeys([*range(10), *range(100, 110)], "x") | {3: "y", 50: "n"}
        del held[5]
        assert values(path) == held
        after = marked(path)
        assert sorted(after[name] for name in before) == [[], [3, 5]]
        assert len(after) == 3
        assert len(list(path.glob("deletion_vector_*.bin"))) == 1

    def test_vectors_are_joined_with_those_that_are_there(self, path: Path) -> None:
        for batch_id, key in enumerate((3, 7, 3, 105), start=2):
            assert bring(path, change_of([(key, f"y{batch_id}")]), batch_id) == 1
        held = dict.fromkeys([*range(10), *range(100, 110)], "x") | {3: "y4", 7: "y3", 105: "y5"}
        assert values(path) == held
        assert sorted(rows for rows in marked(path).values() if rows) == [[3, 7], [5]]
        live_files(path)

    def test_a_file_without_a_row_left_goes(self, path: Path) -> None:
        bring(path, change_of(deletes=range(9)), 2)
        bring(path, change_of([(9, "y")]), 3)
        assert sorted(values(path)) == [9, *range(100, 110)]
        assert list(marked(path).values()) == [[], []]

    def test_keys_that_are_not_there_make_no_commit(self, path: Path) -> None:
        bring(path, change_of(deletes=[5]), 2)
        files = sorted(path.rglob("*"))
        assert bring(path, change_of(deletes=[5], patches=Patches(numbers(5), pa.table({"value": [True]}))), 3) == 0
        assert sorted(path.rglob("*")) == files

    def test_statistics_say_that_they_are_not_tight(self, path: Path) -> None:
        bring(path, change_of([(3, "y"), (110, "n")], [9]), 2)
        bring(path, change_of(deletes=[110]), 3)
        vectored = [add for add in log_of(path).files.values() if add.deletion_vector is not None]
        found = [json.loads(add.stats or "") for add in vectored]
        assert [(statistics["tightBounds"], statistics["numRecords"]) for statistics in found] == [
            (False, 10),
            (False, 2),
        ]
        count = QueryBuilder().register("t", DeltaTable(str(path))).execute("SELECT count(*) n, max(id) m FROM t")
        assert pa.table(count.read_all()).to_pylist() == [{"n": 19, "m": 109}]

    def test_the_commit_says_who_wrote_it(self, path: Path) -> None:
        step = replace(MIRROR_COMMIT_ID, batch_id=7, step=2)
        target = find(path)
        target.merge(change_of([(3, "y")]), step)
        assert target.is_done(step)
        assert find(path).is_done(step)
        assert step.batch_properties().items() <= DeltaTable(str(path)).history(1)[0].items()
        # The same look goes on.
        target.merge(change_of([(4, "y")]), replace(step, batch_id=8))
        assert {key for key, value in values(path).items() if value == "y"} == {3, 4}

    def test_columns_that_a_change_lacks_stay(self, path: Path) -> None:
        """Of rows that are there; of new ones they are null."""
        note = SchemaChange(added=pa.schema([("note", pa.string())]), filled={"note": pa.scalar("kept")})
        find(path).evolve(note, replace(MIRROR_COMMIT_ID, batch_id=2))
        patches = Patches(rows_of(INT_KEY, [(1, "p"), (2, "p")]), pa.table({"value": [True, False]}))
        bring(path, change_of([(3, "y"), (50, "n")], patches=patches), 3)
        held = {row["id"]: (row["value"], row["note"]) for row in find(path).read().read_all().to_pylist()}
        assert [held[key] for key in (1, 2, 3, 4, 50)] == [
            ("p", "kept"),
            ("x", "kept"),
            ("y", "kept"),
            ("x", "kept"),
            ("n", None),
        ]

    def test_every_type_is_patched(self, tmp_path: Path) -> None:
        place = Variant.VECTORS.place(tmp_path)
        types = all_types().slice(0, 1)
        rows = types.add_column(0, "id", [pa.array([1], pa.int32())])
        place.append(0, rows, MIRROR_COMMIT_ID)
        nothing = pa.table(
            {name: pa.nulls(1, kind) for name, kind in zip(types.schema.names, types.schema.types, strict=True)}
        )
        patch = nothing.add_column(0, "id", rows.column("id"))
        present = pa.table({name: [number % 2 == 0] for number, name in enumerate(types.column_names)})
        assert place.bring(change_of(schema=rows.schema, patches=Patches(patch, present)), batch_id=1)
        (row,) = place.read().to_pylist()
        (old,) = rows.to_pylist()
        for number, name in enumerate(types.column_names):
            assert row[name] == (None if number % 2 == 0 else old[name]), name

    def test_many_rows_of_many_row_groups(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("binlog_streaming.lake.file_reader.KEY_ROWS", 1000)
        monkeypatch.setattr("binlog_streaming.lake.file_reader.BATCH_ROWS", 700)
        monkeypatch.setattr("binlog_streaming.lake.files_target.ROW_GROUP_BYTES", 20_000)
        place = Variant.VECTORS.place(tmp_path)
        model = dict.fromkeys(range(5000), "x")
        place.append(0, numbers(*model), MIRROR_COMMIT_ID)
        rng = np.random.default_rng(1)
        for batch_id in range(1, 6):
            keys = rng.choice(6000, 2000, replace=False).tolist()
            upserts = [(key, f"{batch_id}" * 20) for key in keys[:1500]]
            patches = Patches(numbers(*keys[1500:1800]), pa.table({"value": [key % 2 == 0 for key in keys[1500:1800]]}))
            assert place.bring(change_of(upserts, keys[1800:], patches=patches), batch_id=batch_id)
            model |= {key: "x" for key in keys[1500:1800] if key in model and key % 2 == 0}
            model = {key: value for key, value in model.items() if key not in keys[1800:]} | dict(upserts)
            assert values(Path(place.uri)) == model


class TestOtherTables:
    """Tables that were not made for deletion vectors, or by others."""

    def test_a_table_is_upgraded_by_its_first_marks(self, tmp_path: Path) -> None:
        path = tmp_path / "table"
        plain = find(path, Merge.REWRITE)
        plain.create(INT_KEY, MIRROR_COMMIT_ID)
        plain.append(numbers(1, 2).to_reader(), MIRROR_COMMIT_ID)
        version = DeltaTable(str(path)).version()
        assert DeltaTable(str(path)).protocol().min_reader_version == 1
        bring(path, change_of([(1, "y")]), 1)
        table = DeltaTable(str(path))
        assert table.version() == version + 1
        protocol = table.protocol()
        assert (protocol.min_reader_version, protocol.min_writer_version) == (3, 7)
        assert protocol.reader_features == ["deletionVectors"]
        assert set(protocol.writer_features or ()) == {"appendOnly", "deletionVectors", "invariants"}
        assert table.metadata().configuration["delta.enableDeletionVectors"] == "true"
        assert table.metadata().name == "shop.orders"
        assert find(path).properties() == {**MIRROR_COMMIT_ID.table_properties(), **(find(path).properties() or {})}
        assert values(path) == {1: "y", 2: "x"}

    def test_a_changelog_stays_as_every_reader_reads_it(self, tmp_path: Path) -> None:
        place = Variant.VECTORS.place(tmp_path)
        place.append(0, numbers(1, 2))
        assert DeltaTable(place.uri).protocol().min_reader_version == 1
        assert DeltaTable(place.uri).version() == 1

    def test_what_a_table_says_does_not_change_what_readers_must_know(self, path: Path) -> None:
        before = DeltaTable(str(path)).protocol()
        find(path).set_properties(MIRROR_COMMIT_ID, recorded={"binlog-stream.dropped": "0:0:0"})
        after = DeltaTable(str(path)).protocol()
        assert set(after.reader_features or ()) == set(before.reader_features or ()) == {"deletionVectors"}
        assert (find(path).properties() or {})["binlog-stream.dropped"] == "0:0:0"

    def test_the_other_way_of_merging_goes_on_with_such_a_table(self, path: Path) -> None:
        bring(path, change_of([(3, "y")], [5]), 2)
        find(path, Merge.REWRITE).merge(change_of([(4, "z")], [6, 3]), replace(MIRROR_COMMIT_ID, batch_id=3))
        held = dict.fromkeys([0, 1, 2, 7, 8, 9, *range(100, 110)], "x") | {4: "z"}
        assert values(path) == held
        live_files(path)

    @pytest.mark.parametrize(
        ("name", "is_marked"),
        [
            ("plain", True),
            ("deletion_vectors", True),
            ("deletion_vectors_off", True),
            ("timestamp_ntz", True),
            ("char", True),
            ("column_mapping_unused", True),
            ("change_data_feed", True),
            ("v2_checkpoint", True),
            # Their files hold a row each.
            ("everything", False),
            ("partitioned", False),
        ],
    )
    def test_tables_of_spark(self, tmp_path: Path, name: str, is_marked: bool) -> None:
        """Spark's own vectors are joined."""
        with tarfile.open(ARCHIVE) as archive:
            members = [member for member in archive.getmembers() if member.name.startswith(f"{name}/")]
            archive.extractall(tmp_path, members, filter="data")
        path = tmp_path / name
        for file in path.rglob("*"):
            file.touch()
        model = values(path)
        for batch_id, key in enumerate((2, 0, 7, 2)):
            change = change_of([(key, f"u{batch_id}")], [4], patches=Patches(numbers(5), pa.table({"value": [True]})))
            bring(path, change, batch_id)
            model = {**model, key: f"u{batch_id}", 5: "x"}
            model.pop(4, None)
            assert values(path) == model
        live = live_files(path)
        assert any(vector is not None for vector in live.values()) == is_marked

    def test_files_of_another_table_are_refused(self, path: Path) -> None:
        """A shallow clone has them; maintenance must not remove what is not its own."""
        for commit in (path / "_delta_log").glob("*.json"):
            commit.write_text(commit.read_text().replace('"add":{"path":"', '"add":{"path":"file:///elsewhere/'))
        with pytest.raises(TableError, match=r"TABLE_FEATURE\] .*shallow clone"):
            find(path)


class TestAuto:
    """The default: plain for every reader while that is cheap."""

    def test_small_tables_stay_plain_and_large_ones_are_marked(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "table"
        target = find(path, Merge.AUTO)
        target.create(INT_KEY, MIRROR_COMMIT_ID)
        target.append(numbers(*range(1000)).to_reader(), MIRROR_COMMIT_ID)
        find(path, Merge.AUTO).merge(change_of([(3, "y")], [5]), replace(MIRROR_COMMIT_ID, batch_id=1))
        assert DeltaTable(str(path)).protocol().min_reader_version == 1
        assert list(marked(path).values()) == [[]]
        monkeypatch.setattr("binlog_streaming.lake.merge.STEP_BYTES_MAX", 100)
        find(path, Merge.AUTO).merge(change_of([(3, "z")], [6]), replace(MIRROR_COMMIT_ID, batch_id=2))
        monkeypatch.undo()
        # Once its readers must know vectors, there is nothing to be gained by writing anew.
        find(path, Merge.AUTO).merge(change_of([(4, "z")]), replace(MIRROR_COMMIT_ID, batch_id=3))
        assert sorted(map(len, marked(path).values())) == [0, 0, 3]
        held = dict.fromkeys(range(1000), "x") | {3: "z", 4: "z"}
        assert values(path) == {key: value for key, value in held.items() if key not in (5, 6)}

    @pytest.mark.parametrize("table_format", [TableFormat.DELTA, TableFormat.ICEBERG])
    def test_small_tables_are_marked_once_a_day_s_batches_cost_too_much_for_each_row(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_format: TableFormat
    ) -> None:
        """Over restarts, each of which sees the table for the first time."""
        monkeypatch.setattr("binlog_streaming.lake.commit_id.DAY_BYTES_MAX", 30_000)
        monkeypatch.setattr("binlog_streaming.lake.commit_id.ROW_BYTES_MAX", 1000)
        place = Place(tmp_path, table_format, merge_kind=Merge.AUTO)
        place.append(0, numbers(*range(3000)), MIRROR_COMMIT_ID)
        costs = []
        for batch_id in range(1, 12):
            log_module._kept.clear()
            assert place.bring(change_of([(batch_id, "y"), (batch_id + 100, "y")]), batch_id=batch_id)
            with closing(place.target()) as restarted:
                assert isinstance(restarted, FilesTarget)
                costs.append(restarted.write_cost())
                is_marked = restarted._begin().has_deletion_vectors
            assert is_marked == (batch_id > 1 and costs[-1] == costs[-2])
        assert is_marked
        assert 1000 < costs[-1].bytes_per_row < 20_000
        assert 15_000 < costs[-1].written < 30_000
        assert costs[-1].rows == pytest.approx(2 * len({cost.written for cost in costs}), abs=0.1)

    def test_batches_that_change_many_rows_write_files_anew(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Marks would save nothing."""
        monkeypatch.setattr("binlog_streaming.lake.commit_id.DAY_BYTES_MAX", 10_000)
        monkeypatch.setattr("binlog_streaming.lake.commit_id.ROW_BYTES_MAX", 1000)
        place = Place(tmp_path, TableFormat.DELTA, merge_kind=Merge.AUTO)
        place.append(0, numbers(*range(1000)), MIRROR_COMMIT_ID)
        for batch_id in range(1, 8):
            place.bring(change_of([(key, str(batch_id)) for key in range(100)]), batch_id=batch_id)
        assert list(marked(Path(place.uri)).values()) == [[]]

    def test_a_cost_of_days_ago_hardly_counts(self) -> None:
        cost = WriteCost(1e9, 1000, time.time() - 7 * 86_400).after(1000, 1)
        assert 1_000 < cost.written < 1e9 / 1000
        assert not cost.is_too_high
        assert write_cost(cost.properties()[COST_KEY]).bytes_per_row == pytest.approx(cost.bytes_per_row, rel=0.1)
        assert write_cost(None).bytes_per_row == 0

    def test_rows_written_anew_stay_together_by_their_keys(self, tmp_path: Path) -> None:
        """So the next change of some keys has as few files to look into as this one."""
        path = tmp_path / "table"
        target = find(path, Merge.AUTO)
        target.create(INT_KEY, MIRROR_COMMIT_ID)
        for batch_id in range(2):
            rows = numbers(*range(1000 * batch_id, 1000 * batch_id + 10))
            find(path).append(rows.to_reader(), replace(MIRROR_COMMIT_ID, batch_id=batch_id))
        find(path, Merge.AUTO).merge(change_of([(3, "y")]), replace(MIRROR_COMMIT_ID, batch_id=2))
        ranges = [json.loads(add.stats or "") for add in log_of(path).files.values()]
        assert sorted((one["minValues"]["id"], one["maxValues"]["id"]) for one in ranges) == [(0, 9), (1000, 1009)]


class TestVectors:
    """Deletion vectors as the protocol stores them."""

    def test_where_a_vector_may_be(self, tmp_path: Path) -> None:
        rows = np.array([0, 5, 70_000])
        store, nowhere = FolderStore(str(tmp_path)), FolderStore("/nowhere")
        file = DeltaVectorFile()
        other, stored = file.add(np.array([1])), file.add(rows)
        file.write(store)
        assert read_vector(store, other).tolist() == [1]
        assert read_vector(store, stored).tolist() == rows.tolist()
        assert vector_file(store, stored) == file.name
        absolute = changed(stored, storage_type="p", path_or_inline_dv=(tmp_path / file.name).as_uri())
        assert read_vector(store, absolute).tolist() == rows.tolist()
        with pytest.raises(DeltaError, match="is not in /nowhere"):
            read_vector(nowhere, absolute)
        (tmp_path / "ab").mkdir()
        (tmp_path / file.name).rename(tmp_path / "ab" / file.name)
        prefixed = changed(stored, path_or_inline_dv=f"ab{stored.path_or_inline_dv}")
        assert read_vector(store, prefixed).tolist() == rows.tolist()
        data = encoded(rows)
        padded = to_z85(data + b"\0" * (-len(data) % 4))
        inline = Vector(storage_type="i", path_or_inline_dv=padded, size_in_bytes=len(data), cardinality=3)
        assert read_vector(nowhere, inline).tolist() == rows.tolist()
        assert read_vector(nowhere, None).tolist() == []

    def test_text_of_the_protocol(self) -> None:
        """The example of the Z85 specification."""
        assert to_z85(bytes.fromhex("864fd26fb559f75b")) == "HelloWorld"
        assert from_z85("HelloWorld") == bytes.fromhex("864fd26fb559f75b")

    @pytest.mark.parametrize(
        "changes",
        [
            {"path_or_inline_dv": "short"},
            {"path_or_inline_dv": "letters that are none"},
            {"offset": 2**70},
            {"size_in_bytes": 2**70},
            {"size_in_bytes": -1},
            {"storage_type": "i", "path_or_inline_dv": "hello-"},
        ],
        ids=lambda changes: " ".join(f"{name}={value}" for name, value in changes.items()),
    )
    def test_a_log_that_describes_a_vector_wrongly_is_an_error(
        self, tmp_path: Path, changes: dict[str, object]
    ) -> None:
        file, store = DeltaVectorFile(), FolderStore(str(tmp_path))
        stored = file.add(np.array([0, 5]))
        file.write(store)
        with pytest.raises(DeltaError, match="deletion vector"):
            read_vector(store, changed(stored, **changes))

    @pytest.mark.parametrize("place", [0, 3, 20, -1], ids=["length", "length's end", "content", "checksum"])
    def test_a_damaged_vector_is_an_error(self, path: Path, place: int) -> None:
        """Rows that were superseded would come back."""
        bring(path, change_of([(3, "y")]), 2)
        (file,) = path.glob("deletion_vector_*.bin")
        content = bytearray(file.read_bytes())
        content[place if place < 0 else 1 + place] ^= 1
        file.write_bytes(content)
        with pytest.raises(DeltaError, match=r"deletion vector u.*: ") as caught:
            bring(path, change_of([(4, "y")]), 3)
        assert not find(path).is_conflict(caught.value)


class TestMaintenance:
    """Checkpoints, files written anew, and vectors removed; the rows stay as they are."""

    def test_checkpoints_are_written_and_read(self, path: Path) -> None:
        held = values(path)
        for batch_id in range(2, 2 * CHECKPOINT_EVERY):
            bring(path, change_of([(batch_id % 7, str(batch_id))]), batch_id)
            held[batch_id % 7] = str(batch_id)
            whole = log_of(path)
            if whole.version - whole.checkpoint >= CHECKPOINT_EVERY:
                DeltaTable(str(path)).create_checkpoint()
                short = log_of(path)
                assert short.checkpoint == whole.version
                assert short.files == whole.files
                assert (short.metadata, short.transactions) == (whole.metadata, whole.transactions)
                assert set(short.removed) == set(whole.removed)
        assert values(path) == held
        for file in (path / "_delta_log").glob("*.json"):
            if int(file.stem) <= log_of(path).checkpoint:
                file.unlink()
        assert values(path) == held
        bring(path, change_of(deletes=[0]), 99)
        del held[0]
        assert values(path) == held

    def test_a_table_keeps_in_shape(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Through what a job calls: few files, few vectors, a short log, and always the right rows."""
        monkeypatch.setattr("binlog_streaming.lake.delta.maintenance.VACUUM_EVERY", 8)
        place = replace(Variant.VECTORS.place(tmp_path), file_size=1 << 20)
        sink = Sink(directory=str(tmp_path), merge=Merge.MARK, retention="0s")
        model = dict.fromkeys(range(2000), "x")
        place.append(0, numbers(*model), MIRROR_COMMIT_ID)
        rng = np.random.default_rng(2)
        path = Path(place.uri)
        for batch_id in range(1, 60):
            keys = rng.choice(2000, 100, replace=False).tolist()
            place.bring(change_of([(key, str(batch_id)) for key in keys]), batch_id=batch_id)
            model |= dict.fromkeys(keys, str(batch_id))
            target = place.target()
            assert isinstance(target, DeltaTarget)
            target.maintain(sink)
            # The same look goes on behind it.
            assert target.log.version == DeltaTable(place.uri).version()
        assert values(path) == model
        log = log_of(path)
        assert len(log.files) <= 20
        assert log.version - log.checkpoint <= CHECKPOINT_EVERY + 3
        assert sum(add.deletion_vector.cardinality for add in log.files.values() if add.deletion_vector) < 2000
        assert len(list(path.glob("deletion_vector_*.bin"))) <= 12
        assert len(list(path.glob("*.parquet"))) <= 40
        assert DeltaTable(place.uri).transaction_version("binlog-stream/q-1") == 59 << 32
        live_files_of_log(path)

    def test_files_with_many_marks_are_written_anew(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Those alone; the commit is no step, and changes no rows."""
        monkeypatch.setattr("binlog_streaming.lake.file_reader.BATCH_ROWS", 3)
        monkeypatch.setattr(maintenance, "CHURN_S", 0)
        bring(path, change_of(deletes=[1, 3, 5, 7, 103]), 2)
        held, before = values(path), marked(path)
        target = find(path)
        rewrite(target.store, target.log, file_size=SMALL)
        after = marked(path)
        assert sorted(after.values()) == [[], [3]]
        assert len(before.keys() & after.keys()) == 1
        assert values(path) == held
        assert find(path).is_done(replace(MIRROR_COMMIT_ID, batch_id=2))
        last = (path / "_delta_log" / f"{target.log.version:020}.json").read_text()
        assert [json.loads(line).get("add", {}).get("dataChange") for line in last.splitlines()].count(False) == 1
        assert '"txn"' not in last
        assert DeltaTable(str(path)).version() == target.log.version
        live_files(path)

    def test_files_that_one_commit_marks_much_wait_for_the_next_ones(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Until most of their rows are marked, or a minute is over; what is marked little by little does not."""
        written_anew: list[int] = []
        for batch_id, deletes in enumerate(([0, 1, 2, 3, 100], [101], [102], [4, 5], [6, 103]), start=2):
            before = marked(path).keys()
            bring(path, change_of(deletes=deletes), batch_id)
            target = find(path)
            rewrite(target.store, target.log, file_size=SMALL)
            written_anew += [batch_id] * len(before - marked(path).keys())
        assert written_anew == [6, 6]
        assert sorted(values(path)) == [7, 8, 9, *range(104, 110)]
        bring(path, change_of(deletes=[7, 104, 105, 106]), 7)
        target = find(path)
        rewrite(target.store, target.log, file_size=SMALL)
        assert [len(rows) for rows in marked(path).values()] == [4]
        monkeypatch.setattr(maintenance, "CHURN_S", 0)
        rewrite(target.store, target.log, file_size=SMALL)
        assert [len(rows) for rows in marked(path).values()] == [0]

    def test_small_files_wait_until_they_are_joined(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(maintenance, "CHURN_S", 0)
        bring(path, change_of(deletes=[1, 3, 5, 7]), 2)
        target = find(path)
        version = target.log.version
        rewrite(target.store, target.log, file_size=FILE_SIZE)
        assert DeltaTable(str(path)).version() == version

    def test_no_more_is_written_anew_than_goes_at_once(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(maintenance, "JOINED_MAX", 0)
        bring(path, change_of(deletes=[1, 3, 5, 7, *range(100, 108)]), 2)
        target = find(path)
        rewrite(target.store, target.log, file_size=SMALL)
        assert sorted(marked(path).values()) == [[], [1, 3, 5, 7]]

    def test_another_writer_at_the_same_time_has_its_way(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(maintenance, "CHURN_S", 0)
        bring(path, change_of(deletes=[1, 3, 5, 7]), 2)
        target = find(path)
        write_deltalake(str(path), numbers(500), mode="append")
        files = sorted(path.glob("*.parquet"))
        maintain(target.store, target.log, Sink(directory=str(path.parent), target_file_size=SMALL))
        assert sorted(path.glob("*.parquet")) == files
        assert sorted(values(path)) == [0, 2, 4, 6, 8, 9, *range(100, 110), 500]

    def test_vectors_in_use_stay(self, path: Path) -> None:
        """And those that were replaced within the retention, and those that may be of a commit on its way."""
        for batch_id, key in enumerate((1, 2, 103, 4), start=2):
            bring(path, change_of(deletes=[key]), batch_id)
        orphan = path / "deletion_vector_00000000-0000-0000-0000-000000000000.bin"
        orphan.write_bytes(b"\x01")
        files = sorted(path.glob("*.bin"))
        used = {file for add in log_of(path).files.values() if (file := stored_at(path, add)) is not None}
        assert (len(files), len(used)) == (5, 2)
        store = FolderStore(str(path))
        assert vacuum(store, log_of(path), retention_hours=1) == []
        removed = {path / name for name in vacuum(store, log_of(path), retention_hours=0)}
        assert removed == set(files) - used - {orphan}
        assert sorted(values(path)) == [0, 3, 5, 6, 7, 8, 9, *(key for key in range(100, 110) if key != 103)]


def stored_at(path: Path, add: Add) -> Path | None:
    name = None if add.deletion_vector is None else vector_file(FolderStore(str(path)), add.deletion_vector)
    return None if name is None else path / name


def live_files_of_log(path: Path) -> None:
    """See that every file and vector of the table is there."""
    for add in log_of(path).files.values():
        assert (path / add.place).is_file()
        read_vector(FolderStore(str(path)), add.deletion_vector)


class TestFaults:
    """Somebody else commits, the disk is full: nothing is half there."""

    def test_another_commit_since_the_look_is_a_conflict(self, path: Path) -> None:
        """Nothing of what was written for it stays."""
        target = find(path)
        write_deltalake(str(path), numbers(5), mode="append")
        files = sorted(path.rglob("*"))
        with pytest.raises(DeltaError, match="another transaction") as caught:
            target.merge(change_of([(5, "y")]), replace(MIRROR_COMMIT_ID, batch_id=2))
        assert target.is_conflict(caught.value)
        assert sorted(path.rglob("*")) == files

    def test_a_full_disk_is_a_write_error_and_nothing_is_committed(self, path: Path) -> None:
        """The rows, the vectors, and the commit: each does not fit."""
        attempts = [(100000, "Change(rows, none)"), (30, "gone"), (500, "gone")]
        writes = (f"({size}, lambda target: target.merge({change}, commit_id))" for size, change in attempts)
        on_a_full_disk(path, f"[{', '.join(writes)}]", "mark")
        assert len(values(path)) == 20
