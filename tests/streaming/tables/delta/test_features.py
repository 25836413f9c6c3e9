"""Delta tables that Spark wrote are written correctly, or refused by the name of what they use."""

from __future__ import annotations

import json
import shutil
import tarfile
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal, localcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql.types import VariantVal

from binlog_format.errors import TableError
from binlog_streaming.lake.change import Patches
from binlog_streaming.lake.commit_id import MODE_PROPERTY
from binlog_streaming.lake.delta import log as log_module
from binlog_streaming.lake.delta import maintenance
from binlog_streaming.lake.delta.actions import Domain, statistics_of
from binlog_streaming.lake.delta.checkpoints import write_checkpoint
from binlog_streaming.lake.delta.features import CLUSTERING, clustering_columns, is_widening, named_features
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
    "type_widening": (0, 1, 2, 3, 4, 5),
    "type_widening_unused": (0, 1, 2, 3, 4, 5),
    "not_null": (0, 1, 2, 3, 4, 5),
    "clustered": (0, 1, 2, 3, 4, 5),
    "in_commit_timestamps": (0, 1, 2, 3, 4, 5),
    "vacuum_protocol_check": (0, 1, 2, 3, 4, 5),
    "checkpoint_protection": (0, 1, 2, 3, 4, 5),
    "row_tracking": (0, 1, 2, 3, 4, 5),
    "defaults": (0, 1, 2, 3, 4, 5),
    "variant": (0, 1, 2, 3, 4, 5),
    "shredded": (0, 1, 2, 3, 4, 5),
    "check": (0, 1, 2, 3, 4, 5),
    "iceberg_compat": (0, 1, 2, 3, 4, 5),
    "iceberg_compat_3": (0, 2, 4, 5),
}
"""Tables, and the rows that they hold."""

REFUSED = {
    "generated": r"generatedColumns \(column twice: id \* 2, at character 4 .*",
    "append_only": "appendOnly",
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
    """What the table holds, as deltalake reads it with a new look; where it cannot, we do."""
    table = DeltaTable(str(path))
    unread = {"typeWidening", "vacuumProtocolCheck", "variantShredding-preview"}
    if unread & {*(table.protocol().reader_features or ())}:
        rows = find(path).read().read_all().to_pylist()
    else:
        rows = pa.table(table.scan(columns=["id", "value"]).read_all()).to_pylist()
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


@pytest.mark.parametrize("name", ["v2_checkpoint", "everything"])
def test_others_read_a_checkpoint_of_ours(tables: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "table"
    shutil.copytree(tables / name, path)
    target = find(path)
    for file in path.joinpath("_delta_log").rglob("*"):
        if ".checkpoint." in file.name or file.parent.name == "_sidecars":
            file.unlink()
    write_checkpoint(target.store, target.log)
    for version in range(target.log.version):
        path.joinpath("_delta_log", f"{version:020}.json").unlink()
    assert set(values(path)) == set(WRITTEN[name])
    log_module._kept.clear()
    again = find(path).log
    assert again is not None
    assert (again.checkpoint, again.files, again.metadata) == (
        target.log.version,
        target.log.files,
        target.log.metadata,
    )


SHREDDED = [
    {
        "a": {"i": 7, "more": True, "t": "x"},
        "l": [1, -2, 3],
        "o": [5, 6],
        "b": True,
        "y": 1,
        "s": -300,
        "f": 1.5,
        "d": Decimal("12.25"),
        "e": Decimal("-7.0001"),
        "g": Decimal("12345678901234567890123456789012345.678"),
        "day": date(2020, 2, 29),
        "at": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        "local": datetime(2020, 1, 1),  # noqa: DTZ001 (has no zone)
        "raw": b"\0\xff",
        "x": "long " * 20,
        "z": 1,
    },
    {"a": {"i": "no number", "q": {"r": 1}, "r": Decimal("0.5")}, "b": None, "l": [1, "two", None], "ü": "ä"},
    [1, {"a": 2}],
    {"a": {}, "l": [], "o": [{"k": [1]}, None], "x": "short"},
    None,
]
"""Variants of the table whose files have parts of them in columns of their own."""


@pytest.mark.parametrize("merge", [Merge.REWRITE, Merge.MARK])
def test_shredded_variants_are_read_and_stay_what_they_are(tables: Path, tmp_path: Path, merge: Merge) -> None:
    path = tmp_path / "table"
    shutil.copytree(tables / "shredded", path)

    def found() -> list[object]:
        rows = find(path).read().read_all().sort_by("id").slice(0, 6).column("v").to_pylist()
        assert rows.pop() is None
        return [VariantVal(row["value"], row["metadata"]).toPython() for row in rows]

    with localcontext(prec=60):
        assert found() == SHREDDED
        find(path, merge).merge(change_of([(70, "n")], [71]), replace(MIRROR_COMMIT_ID, batch_id=1))
        target = find(path, merge)
        target.replace(target.read(), replace(MIRROR_COMMIT_ID, batch_id=2))
        (name,) = live_files(path)
        assert set(pq.read_schema(path / name).field("v").type.names) == {"metadata", "value"}
        assert found() == SHREDDED


def test_every_table_of_the_archive_is_judged(tables: Path) -> None:
    assert {path.name for path in tables.iterdir()} == {*WRITTEN, *REFUSED, "identity"}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_written_correctly_is_refused_by_name(tables: Path, name: str) -> None:
    before = sorted(tables.joinpath(name).rglob("*"))
    reason = rf"TABLE_FEATURE\] .*/{name}: .* only Spark writes correctly: {REFUSED[name]}\. "
    with pytest.raises(TableError, match=reason) as caught:
        find(tables / name)
    assert "Spark: ALTER TABLE ... " in (caught.value.hint or "")
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
    if merge is Merge.REWRITE or name == "iceberg_compat":
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


def test_a_row_without_a_value_is_refused_where_the_table_needs_one(tables: Path, tmp_path: Path) -> None:
    """NOT NULL stays, also in a table that gets another column, and is written anew."""
    path = tmp_path / "table"
    shutil.copytree(tables / "not_null", path)
    find(path).evolve(SchemaChange(added=MORE), MIRROR_COMMIT_ID)
    find(path).replace(find(path).read(), replace(MIRROR_COMMIT_ID, batch_id=1))
    before = values(path)
    with pytest.raises(TableError, match=r"TABLE_FEATURE\] .* no value in column id, .*: NOT NULL"):
        find(path).append(pa.table({"value": ["x"]}).to_reader(), replace(MIRROR_COMMIT_ID, batch_id=2))
    assert values(path) == before
    fields = json.loads(DeltaTable(str(path)).schema().to_json())["fields"]
    assert [field["nullable"] for field in fields] == [False, True, True]


def test_identity_columns_take_values_and_no_row_without_one(tables: Path, tmp_path: Path) -> None:
    path = tmp_path / "table"
    shutil.copytree(tables / "identity", path)
    row = pa.table({"id": pa.array([7], pa.int32()), "value": ["x"], "n": [70]})
    find(path).append(row.to_reader(), MIRROR_COMMIT_ID)
    with pytest.raises(TableError, match=r"TABLE_FEATURE\] .* no value in column n, .*: identityColumns"):
        find(path).append(row.drop_columns("n").to_reader(), replace(MIRROR_COMMIT_ID, batch_id=1))
    assert sorted(find(path).read().read_all().column("n").to_pylist()) == [1, 2, 3, 4, 5, 6, 70]


def test_a_default_stays_and_rows_without_its_column_are_refused(tables: Path, tmp_path: Path) -> None:
    """Rows of a source bring null where it has null; a column that it does not have would be null without a word."""
    path = tmp_path / "table"
    shutil.copytree(tables / "defaults", path)
    find(path).append(numbers(7).set_column(1, "value", pa.nulls(1, pa.string())).to_reader(), MIRROR_COMMIT_ID)
    find(path).evolve(SchemaChange(renamed={"value": "name"}), replace(MIRROR_COMMIT_ID, step=1))
    before = live_files(path)
    schema = pa.schema([("id", pa.int32())])
    steps: list[Callable[[DeltaTarget, CommitId], object]] = [
        lambda target, commit_id: target.append(numbers(8).select(["id"]).to_reader(), commit_id),
        lambda target, commit_id: target.merge(change_of([(60,)], schema=schema), commit_id),
    ]
    for write in steps:
        with pytest.raises(TableError, match=r"TABLE_FEATURE\] new rows have no column name, .* a default"):
            write(find(path), replace(MIRROR_COMMIT_ID, batch_id=1))
    assert live_files(path) == before
    find(path).merge(change_of([(2,)], schema=schema), replace(MIRROR_COMMIT_ID, batch_id=1))  # the row keeps its value
    names = find(path).read().read_all().sort_by("id").column("name").to_pylist()
    assert names == [*(f"v{number}" for number in range(6)), None]


def test_transactions_tell_their_time(tmp_path: Path) -> None:
    """By it other writers let them expire, in a table with `delta.setTransactionRetentionDuration`."""
    find(tmp_path).create(INT_KEY, MIRROR_COMMIT_ID)
    find(tmp_path).append(numbers(1).to_reader(), MIRROR_COMMIT_ID)
    commit, transaction = map(json.loads, (tmp_path / "_delta_log" / f"{1:020}.json").read_text().splitlines()[:2])
    assert 0 <= transaction["txn"]["lastUpdated"] - commit["commitInfo"]["timestamp"] + 60_000 <= 60_000


class TestClustering:
    """The columns of a clustered table are kept, and its files have statistics of them; the order of rows is free."""

    def test_columns_stay_through_every_kind_of_commit(self, tables: Path, tmp_path: Path) -> None:
        path = tmp_path / "table"
        shutil.copytree(tables / "clustered", path)
        for batch_id in range(20):
            find(path).merge(change_of([(batch_id, "y")]), replace(MIRROR_COMMIT_ID, batch_id=batch_id))
            find(path).maintain(Sink(directory=str(tmp_path)))
        find(path).replace(find(path).read(), replace(MIRROR_COMMIT_ID, batch_id=20))
        find(path).maintain(Sink(directory=str(tmp_path)))
        assert sorted(values(path)) == list(range(20))
        (checkpoint,) = (path / "_delta_log").glob("*.checkpoint.parquet")
        for commit in (path / "_delta_log").glob("*.json"):
            if commit.name < checkpoint.name:
                commit.unlink()
        log_module._kept.clear()
        log = find(path).log
        assert log is not None
        assert log.checkpoint > 0
        assert clustering_columns(log.domains) == [["id"]]
        assert {"clustering", "domainMetadata"} <= set(DeltaTable(str(path)).protocol().writer_features or ())

    def test_a_renamed_column_is_the_same_one(self, tables: Path, tmp_path: Path) -> None:
        path = tmp_path / "table"
        shutil.copytree(tables / "clustered", path)
        find(path).evolve(SchemaChange(renamed={"id": "number"}), MIRROR_COMMIT_ID)
        log = find(path).log
        assert log is not None
        assert clustering_columns(log.domains) == [["number"]]

    def test_files_have_statistics_of_them_wherever_they_are(self, tmp_path: Path) -> None:
        columns = [pa.field(f"c{number}", pa.int32()) for number in range(40)]
        target = find(tmp_path)
        target.create(pa.schema(columns), MIRROR_COMMIT_ID)
        log = target.log
        assert log is not None
        protocol = named_features(set(), {"clustering", "domainMetadata"})
        domain = Domain(domain=CLUSTERING, configuration='{"clusteringColumns":["c37"]}', removed=False)
        log_module.make_commit(target.store, log, "CLUSTER BY", [("protocol", protocol), ("domainMetadata", domain)])
        row = pa.table({column.name: pa.array([7], pa.int32()) for column in columns})
        find(tmp_path).append(row.to_reader(), MIRROR_COMMIT_ID)
        assert self.measured(tmp_path)[-2:] == ["c31", "c37"]
        find(tmp_path).evolve(SchemaChange(renamed={"c37": "number"}), MIRROR_COMMIT_ID)
        assert self.measured(tmp_path)[-2:] == ["c31", "number"]

    def measured(self, path: Path) -> list[str]:
        (add,) = find(path).log.files.values()
        least = statistics_of(add)["minValues"]
        assert isinstance(least, dict)
        return [*least]


class TestTypeWidening:
    """A table with it takes a wider type at once, and keeps its files."""

    @pytest.mark.parametrize("name", ["type_widening", "type_widening_unused"])
    def test_wider_types_leave_files_as_they_are(self, tables: Path, tmp_path: Path, name: str) -> None:
        path = tmp_path / "table"
        shutil.copytree(tables / name, path)
        before, files, kind = values(path), live_files(path), find(path).schema().field("id").type
        find(path).evolve(SchemaChange(retyped={"id": pa.int64()}), MIRROR_COMMIT_ID)
        assert live_files(path) == files
        assert values(path) == before
        large = 1 << 40
        change = pa.schema([("id", pa.int64()), ("value", pa.string())])
        find(path).merge(change_of([(2, "y"), (large, "z")], schema=change), replace(MIRROR_COMMIT_ID, batch_id=1))
        assert values(path) == before | {2: "y", large: "z"}
        column = json.loads(DeltaTable(str(path)).schema().to_json())["fields"][0]
        assert (column["type"], column["metadata"]["delta.typeChanges"][-1]) == (
            "long",
            {"fromType": "short" if kind == pa.int16() else "integer", "toType": "long"},
        )
        # No file has another type any more.
        find(path).replace(find(path).read(), replace(MIRROR_COMMIT_ID, batch_id=2))
        column = json.loads(DeltaTable(str(path)).schema().to_json())["fields"][0]
        assert "delta.typeChanges" not in column["metadata"]
        assert values(path) == before | {2: "y", large: "z"}

    @pytest.mark.parametrize(
        ("before", "after", "known"),
        [
            ("byte", "long", True),
            ("long", "integer", False),
            ("float", "double", True),
            ("long", "double", False),
            ("date", "timestamp_ntz", True),
            ("date", "timestamp", False),
            ("integer", "decimal(10,0)", True),
            ("integer", "decimal(10,1)", False),
            ("long", "decimal(22,2)", True),
            ("decimal(6,2)", "decimal(8,3)", True),
            ("decimal(6,2)", "decimal(7,4)", False),
            ("string", "binary", False),
        ],
    )
    def test_changes_of_types_are_those_of_the_protocol(self, before: str, after: str, known: bool) -> None:
        assert is_widening(before, after) == known

    def test_an_unknown_change_is_refused(self, tables: Path, tmp_path: Path) -> None:
        path = tmp_path / "table"
        shutil.copytree(tables / "type_widening", path)
        log = path / "_delta_log" / f"{2:020}.json"
        log.write_text(log.read_text().replace('toType\\":\\"integer', 'toType\\":\\"boolean'))
        with pytest.raises(TableError, match=r"typeWidening short to boolean \(column id\)"):
            find(path)


class TestCommitTimestamps:
    """Each is later than the one before, also if a clock goes back and where a checkpoint has none."""

    def times(self, path: Path) -> list[int]:
        commits = sorted((path / "_delta_log").glob("*[0-9].json"))
        first = [json.loads(commit.read_text().partition("\n")[0])["commitInfo"] for commit in commits]
        return [information["inCommitTimestamp"] for information in first]

    def test_they_grow(self, tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "table"
        shutil.copytree(tables / "in_commit_timestamps", path)
        start = self.times(path)[-1]
        for batch_id, now in enumerate((start - 5, start - 3, start + 100, start + 90)):
            monkeypatch.setattr(log_module, "milliseconds", lambda now=now: now)
            find(path).merge(change_of([(batch_id, "y")]), replace(MIRROR_COMMIT_ID, batch_id=batch_id))
        assert self.times(path)[2:] == [start + 1, start + 2, start + 100, start + 101]

    def test_another_writer_s_commit_comes_before(self, tables: Path, tmp_path: Path) -> None:
        path = tmp_path / "table"
        shutil.copytree(tables / "in_commit_timestamps", path)
        target = find(path)
        ours = json.loads((path / "_delta_log" / f"{1:020}.json").read_text().partition("\n")[0])["commitInfo"]
        theirs = {"commitInfo": ours | {"inCommitTimestamp": 4_000_000_000_000, "operation": "WRITE"}}
        (path / "_delta_log" / f"{2:020}.json").write_text(json.dumps(theirs) + "\n")
        target.append(numbers(7).to_reader(), MIRROR_COMMIT_ID)
        assert self.times(path)[2:] == [4_000_000_000_000, 4_000_000_000_001]

    def test_after_a_checkpoint_the_commit_is_read(self, tables: Path, tmp_path: Path) -> None:
        path = tmp_path / "table"
        shutil.copytree(tables / "in_commit_timestamps", path)
        DeltaTable(str(path)).create_checkpoint()
        log_module._kept.clear()
        find(path).append(numbers(7).to_reader(), MIRROR_COMMIT_ID)
        assert sorted(self.times(path)) == self.times(path)
        DeltaTable(str(path)).create_checkpoint()
        (path / "_delta_log" / f"{2:020}.json").unlink()
        log_module._kept.clear()
        with pytest.raises(DeltaError, match="version 2 has no in-commit timestamp"):
            find(path).append(numbers(8).to_reader(), replace(MIRROR_COMMIT_ID, batch_id=1))


def test_checkpoints_of_a_table_with_the_second_kind_are_of_that_kind(tables: Path, tmp_path: Path) -> None:
    path = tmp_path / "table"
    shutil.copytree(tables / "v2_checkpoint", path)
    for batch_id in range(18):
        find(path).append(numbers(50 + batch_id).to_reader(), replace(MIRROR_COMMIT_ID, batch_id=batch_id))
        find(path).maintain(Sink(directory=str(tmp_path)))
    (checkpoint,) = (path / "_delta_log").glob("*.checkpoint.parquet")
    (described,) = filter(None, pq.read_table(checkpoint).column("checkpointMetadata").to_pylist())
    assert described["version"] == int(checkpoint.name.partition(".")[0])
    log_module._kept.clear()
    assert sorted(values(path)) == sorted(find(path).read().read_all().column("id").to_pylist())


def test_a_protected_log_keeps_its_checkpoints(tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table"
    shutil.copytree(tables / "checkpoint_protection", path)
    monkeypatch.setattr(maintenance, "CHECKPOINT_AGE_S", -9)
    monkeypatch.setattr(maintenance, "CHECKPOINT_EVERY", 1)
    for batch_id in range(5):
        find(path).append(numbers(50 + batch_id).to_reader(), replace(MIRROR_COMMIT_ID, batch_id=batch_id))
        find(path).maintain(Sink(directory=str(tmp_path)))
    assert len(list((path / "_delta_log").glob("*.checkpoint.parquet"))) == 5


@pytest.mark.parametrize(
    ("merge", "told"),
    [
        (Merge.REWRITE, {"numTargetFilesAdded": 1, "numTargetFilesRemoved": 1, "numOutputRows": 7}),
        (Merge.MARK, {"numTargetFilesAdded": 1, "numTargetFilesRemoved": 0, "numTargetDeletionVectorsAdded": 1}),
    ],
)
def test_commits_tell_what_they_did(tables: Path, tmp_path: Path, merge: Merge, told: dict[str, int]) -> None:
    path = tmp_path / "table"
    shutil.copytree(tables / "plain", path)
    find(path, merge).merge(change_of([(1, "y"), (70, "n")]), MIRROR_COMMIT_ID)
    (merged,) = DeltaTable(str(path)).history(1)
    assert (merged["operation"], merged["readVersion"], merged["isBlindAppend"]) == ("MERGE", 1, False)
    assert told.items() <= {name: int(count) for name, count in merged["operationMetrics"].items()}.items()
    find(path, merge).append(numbers(80, 81).to_reader(), replace(MIRROR_COMMIT_ID, batch_id=1))
    (appended,) = DeltaTable(str(path)).history(1)
    assert (appended["operation"], appended["isBlindAppend"]) == ("WRITE", True)
    assert appended["operationMetrics"]["numOutputRows"] == "2"


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
        (
            {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["materializePartitionColumns"]},
            "materialize",
        ),
    ],
    ids=["newer protocol", "unknown to readers", "newer writers", "unknown to writers"],
)
def test_what_comes_one_day_is_refused(tmp_path: Path, protocol: dict[str, object], told: str) -> None:
    with_protocol(tmp_path, protocol)
    with pytest.raises(TableError, match=rf"TABLE_FEATURE\] .*{told}"):
        find(tmp_path)


@pytest.mark.parametrize("version", range(2, 7))
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
