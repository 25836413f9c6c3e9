"""Delta tables that Spark wrote are written correctly, or refused by the name of what they use."""

from __future__ import annotations

import json
import shutil
import tarfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from binlog_format.errors import TableError
from binlog_streaming.lake.change import Patches
from binlog_streaming.lake.commit_id import MODE_PROPERTY
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.lake.evolution import SchemaChange
from binlog_streaming.lake.target import SMALL_FILES_MIN
from binlog_streaming.settings import Merge, Mode, Sink, TableFormat
from binlog_streaming.settings.choices import partition_rule
from tests.streaming.tables.lake.sink_cases import INT_KEY, MIRROR_COMMIT_ID, Place, change_of, numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_streaming.lake.commit_id import CommitId

MORE = pa.schema([("more", pa.int32())])
NO_FLAGS = pa.table({"none": [True, True]}).select([])
ARCHIVE = Path(__file__).parents[3] / "data" / "delta" / "spark-tables.tar.xz"

WRITTEN = {
    "plain": (0, 1, 2, 3, 4, 5),
    "deletion_vectors": (0, 2, 4, 5),
    "deletion_vectors_off": (0, 2, 4, 5),
    "everything": (0, 2, 4, 5),
    "change_data_feed": (0, 1, 2, 3, 4, 5),
    "v2_checkpoint": (0, 1, 2, 3, 4, 5),
    "partitioned": (0, 1, 2, 3, 4, 5),
    "timestamp_ntz": (0, 1, 2, 3, 4, 5),
    "char": (0, 1, 2, 3, 4, 5),
    "column_mapping": (0, 1, 2, 3, 4, 5),
    "column_mapping_unused": (0, 1, 2, 3, 4, 5),
}
"""Tables, and the rows that they hold."""

REFUSED = {
    "type_widening": "typeWidening",
    "type_widening_unused": "typeWidening",
    "check": r"checkConstraints \(small\)",
    "not_null": r"invariants \(column id NOT NULL\)",
    "generated": r"generatedColumns \(column twice\)",
    "identity": r"identityColumns, identityColumns \(column n\)",
    "defaults": "allowColumnDefaults",
    "append_only": "appendOnly",
    "row_tracking": "domainMetadata, rowTracking",
    "clustered": "clustering, domainMetadata",
    "in_commit_timestamps": "inCommitTimestamp",
    "variant": "variantType",
    "vacuum_protocol_check": "vacuumProtocolCheck",
    "checkpoint_protection": "checkpointProtection",
    "iceberg_compat": "icebergCompatV2",
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spark")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    for path in folder.rglob("*"):
        path.touch()  # else commits are old enough to be removed behind a checkpoint
    return folder


def find(path: Path, merge: Merge = Merge.AUTO) -> DeltaTarget:
    return DeltaTarget.at(Sink(directory="", merge=merge), str(path))


def values(path: Path) -> dict[int, str | None]:
    """What the table holds, as deltalake reads it with a new look."""
    rows = pa.table(DeltaTable(str(path)).scan(columns=["id", "value"]).read_all()).to_pylist()
    held = {row["id"]: row["value"] for row in rows}
    assert len(held) == len(rows)
    return held


def live_files(path: Path) -> dict[str, str | None]:
    """Files of the table and their deletion vectors, by the protocol: with another vector a file is another one."""
    live: set[tuple[str, str | None]] = set()
    for commit in sorted((path / "_delta_log").glob("*[0-9].json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        removed = {_file(action["remove"]) for action in actions if "remove" in action}
        assert removed <= live, f"{commit.name} removes what is not there"
        live -= removed
        live |= {_file(action["add"]) for action in actions if "add" in action}
    assert len(live) == len(dict(live))
    return dict(live)


def _file(action: dict[str, object]) -> tuple[str, str | None]:
    vector = action.get("deletionVector")
    assert vector is None or isinstance(vector, dict)
    return str(action["path"]), None if vector is None else f"{vector['storageType']}{vector['pathOrInlineDv']}"


def test_every_table_of_the_archive_is_judged(tables: Path) -> None:
    assert {path.name for path in tables.iterdir()} == {*WRITTEN, *REFUSED}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_written_correctly_is_refused_by_name(tables: Path, name: str) -> None:
    before = sorted(tables.joinpath(name).rglob("*"))
    reason = rf"TABLE_FEATURE\] .*/{name}: .* only Spark writes correctly: {REFUSED[name]}\. "
    with pytest.raises(TableError, match=reason) as caught:
        find(tables / name)
    assert "DROP FEATURE" in (caught.value.hint or "")
    assert sorted(tables.joinpath(name).rglob("*")) == before


@pytest.mark.parametrize("merge", [Merge.REWRITE, Merge.MARK])
@pytest.mark.parametrize("name", WRITTEN)
def test_tables_of_spark_are_written_correctly(tables: Path, tmp_path: Path, name: str, merge: Merge) -> None:
    """Every kind of step in turn; files with deletion vectors are left, joined, and written anew."""
    path = tmp_path / "table"
    shutil.copytree(tables / name, path)
    model: dict[int, str | None] = {number: f"v{number}" for number in WRITTEN[name]}
    assert values(path) == model
    spark_files = live_files(path)
    steps: list[tuple[Callable[[DeltaTarget, CommitId], object], dict[int, str | None]]] = [
        (lambda target, commit_id: target.append(numbers(50, 51).to_reader(), commit_id), {50: "x", 51: "x"}),
        (lambda target, commit_id: target.merge(change_of([(90, "n")]), commit_id), {90: "n"}),
        (
            lambda target, commit_id: target.merge(
                change_of([(2, "u"), (3, "u"), (60, "u")], [4, 50], patches=Patches(numbers(5, 61), NO_FLAGS)),
                commit_id,
            ),
            {2: "u", 3: "u", 60: "u", 4: None, 50: None, 5: "x"},
        ),
        (lambda target, commit_id: target.evolve(SchemaChange(added=MORE), commit_id), {}),
        (
            lambda target, commit_id: target.evolve(
                SchemaChange(retyped={"id": pa.int64()}, filled={"more": pa.scalar(1)}), commit_id
            ),
            {},
        ),
        (lambda target, commit_id: target.replace(target.read(), commit_id), {}),
        (lambda target, commit_id: target.merge(change_of([(0, "last")]), commit_id), {0: "last"}),
    ]
    for number, (write, changed) in enumerate(steps):
        commit_id = replace(MIRROR_COMMIT_ID, batch_id=1, step=number)
        target = find(path, merge)
        target.check_owner(commit_id)
        assert not target.is_done(commit_id)
        write(target, commit_id)
        assert find(path).is_done(commit_id)
        model = {key: value for key, value in (model | changed).items() if value is not None}
        assert values(path) == model, number
        live = live_files(path)
        if number < 2:
            assert spark_files.items() <= live.items()
    if merge is Merge.REWRITE:
        assert set(live_files(path).values()) == {None}
    rows = find(path).read().read_all()
    assert rows.schema.field("id").type == pa.int64()
    assert set(rows.column("more").to_pylist()) == {1}


def test_files_with_deletion_vectors_are_joined_correctly(tables: Path, tmp_path: Path) -> None:
    path = tmp_path / "table"
    shutil.copytree(tables / "deletion_vectors", path)
    for batch_id in range(SMALL_FILES_MIN):
        find(path).append(numbers(50 + batch_id).to_reader(), replace(MIRROR_COMMIT_ID, batch_id=batch_id))
    find(path).maintain(Sink(directory=str(tmp_path)))
    assert sorted(values(path)) == [0, 2, 4, 5, *range(50, 50 + SMALL_FILES_MIN)]
    assert list(live_files(path).values()) == [None]


@pytest.mark.parametrize("merge", [Merge.REWRITE, Merge.MARK])
def test_change_data_feed_says_what_became_of_each_row(tables: Path, tmp_path: Path, merge: Merge) -> None:
    path = tmp_path / "table"
    shutil.copytree(tables / "change_data_feed", path)
    find(path, merge).append(numbers(50).to_reader(), MIRROR_COMMIT_ID)
    version = DeltaTable(str(path)).version()
    change = change_of([(2, "u"), (60, "u")], [4, 77], patches=Patches(numbers(5, 61), NO_FLAGS))
    find(path, merge).merge(change, replace(MIRROR_COMMIT_ID, batch_id=1))
    feed = pa.table(DeltaTable(str(path)).load_cdf(starting_version=version, columns=None).read_all()).to_pylist()
    said = sorted((row["_commit_version"] - version, row["_change_type"], row["id"], row["value"]) for row in feed)
    assert said == [
        (0, "insert", 50, "x"),
        (1, "delete", 4, "v4"),
        (1, "insert", 60, "u"),
        (1, "update_postimage", 2, "u"),
        (1, "update_postimage", 5, "x"),
        (1, "update_preimage", 2, "v2"),
        (1, "update_preimage", 5, "v5"),
    ]


def test_rows_go_to_files_of_their_partition(tables: Path, tmp_path: Path) -> None:
    path = tmp_path / "table"
    shutil.copytree(tables / "partitioned", path)
    for batch_id in range(3):
        find(path).append(numbers(50 + batch_id).to_reader(), replace(MIRROR_COMMIT_ID, batch_id=batch_id))
    table = DeltaTable(str(path))
    (column,) = table.metadata().partition_columns
    files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    ours = [file for file in files if file["path"].startswith(f"{column}=x/part-00000-")]
    assert [file[f"partition.{column}"] for file in ours] == ["x", "x", "x"]
    assert all(column not in pq.read_schema(path / file["path"]).names for file in ours)
    rows = table.to_pyarrow_table(filters=[(column, "=", "x")])
    assert sorted(rows.column("id").to_pylist()) == [50, 51, 52]


def test_empty_text_by_which_a_table_is_partitioned_is_refused(tmp_path: Path) -> None:
    """Delta would keep it as null: a row would have another value, and its key would never be found again."""
    place = Place(tmp_path, TableFormat.DELTA)
    commit_id = replace(MIRROR_COMMIT_ID, partition_by=(partition_rule("value"),))
    with closing(place.target()) as target:
        target.create(INT_KEY, commit_id)
        with pytest.raises(TableError, match="column value holds an empty text") as refused:
            target.append(pa.table({"id": [1], "value": [""]}).to_reader(), commit_id)
        assert refused.value.subclass == "PARTITION_VALUE"
        assert target.read().read_all().num_rows == 0


def test_a_changelog_may_be_append_only(tables: Path, tmp_path: Path) -> None:
    path = tmp_path / "table"
    shutil.copytree(tables / "append_only", path)
    log = path / "_delta_log" / f"{0:020}.json"
    mirror, changelog = (f'"{MODE_PROPERTY}":"{mode}"' for mode in (Mode.MIRROR, Mode.CHANGELOG))
    assert mirror in log.read_text()
    log.write_text(log.read_text().replace(mirror, changelog))
    find(path).append(numbers(7).to_reader(), MIRROR_COMMIT_ID)
    assert sorted(values(path)) == [0, 1, 2, 3, 4, 5, 7]


@pytest.mark.parametrize(
    ("protocol", "told"),
    [
        ({"minReaderVersion": 4, "minWriterVersion": 8}, "version"),
        (
            {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["somethingNew"],
                "writerFeatures": ["somethingNew", "appendOnly"],
            },
            "somethingNew",
        ),
        ({"minReaderVersion": 1, "minWriterVersion": 8}, "writer version 8"),
        ({"minReaderVersion": 2, "minWriterVersion": 6}, "identityColumns"),
        (
            {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["materializePartitionColumns"]},
            "materialize",
        ),
    ],
    ids=["newer protocol", "unknown to readers", "newer writers", "before names", "unknown to writers"],
)
def test_what_comes_one_day_is_refused(tmp_path: Path, protocol: dict[str, object], told: str) -> None:
    with_protocol(tmp_path, protocol)
    with pytest.raises(TableError, match=rf"TABLE_FEATURE\] .*{told}"):
        find(tmp_path)


@pytest.mark.parametrize("version", range(2, 6))
def test_older_protocols_are_written(tmp_path: Path, version: int) -> None:
    """They name no features; a version includes some, which nothing makes use of here."""
    with_protocol(tmp_path, {"minReaderVersion": 1 + (version > 4), "minWriterVersion": version})
    find(tmp_path).append(numbers(2).to_reader(), replace(MIRROR_COMMIT_ID, batch_id=1))
    assert sorted(values(tmp_path)) == [1, 2]


def with_protocol(path: Path, protocol: dict[str, object]) -> None:
    """A table with the row 1 whose log says another protocol."""
    target = find(path)
    target.create(INT_KEY, MIRROR_COMMIT_ID)
    target.append(numbers(1).to_reader(), MIRROR_COMMIT_ID)
    log = path / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    log.write_text("\n".join(json.dumps({"protocol": protocol} if "protocol" in line else line) for line in lines))
