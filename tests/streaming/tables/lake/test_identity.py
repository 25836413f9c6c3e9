"""Rows keep their ids over updates, over files that are written anew, and over statements: the tables that have ids.

Iceberg tables of version 3 are in a real REST catalog. What Spark reads of them is in `test_spark_tables.py`.
"""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from msgspec import structs

from binlog_streaming.lake.change import Change, Patches
from binlog_streaming.lake.delta.log import read_log
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.lake.evolution import IDENTITY, SchemaChange, has_identity
from binlog_streaming.lake.iceberg.target import IcebergTarget
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.settings import Deletes, Merge, Mode, Sink, TableFormat
from binlog_streaming.tables.statements.row_retention import left_rows, retained_rows
from binlog_streaming.tables.statements.target_alteration import TargetAlteration
from tests.chance import seed
from tests.faults.object_store import RestCatalog
from tests.streaming.tables.lake.sink_cases import INT_KEY, MIRROR_COMMIT_ID, change_of, numbers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_streaming.lake.target import Target

MARKED_ROWS = pa.schema([*INT_KEY, ("_deleted", pa.bool_()), ("_deleted_at", pa.timestamp("us", "UTC"))])
KINDS = [
    pytest.param(TableFormat.ICEBERG, Merge.MARK, id="iceberg-mark", marks=pytest.mark.server),
    pytest.param(TableFormat.ICEBERG, Merge.REWRITE, id="iceberg-rewrite", marks=pytest.mark.server),
    pytest.param(TableFormat.DELTA, Merge.MARK, id="delta-mark"),
    pytest.param(TableFormat.DELTA, Merge.REWRITE, id="delta-rewrite"),
]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with RestCatalog(tmp_path_factory.mktemp("rest")) as server:
        yield server.settings()


@dataclass
class IdentityTable:
    """A table `shop.orders` whose rows have ids.

    Attributes:
        known: Id and version of each row that was there after the last step, by key.
        used: Ids that a row has or had.
    """

    sink: Sink
    batch_id: int = 0

    def __post_init__(self) -> None:
        self.known: dict[int, tuple[int, int]] = {}
        self.used: set[int] = set()

    def look(self) -> Target:
        return sink_type(self.sink.format).at(self.sink, f"{self.sink.directory}/shop/orders")

    def create(self, schema: pa.Schema = INT_KEY) -> None:
        with closing(self.look()) as target:
            target.create(schema, MIRROR_COMMIT_ID)

    def append(self, rows: pa.Table) -> None:
        with closing(self.look()) as target:
            target.append(rows.to_reader(), MIRROR_COMMIT_ID)
        self.check(set())

    def merge(self, change: Change) -> None:
        with closing(self.look()) as target:
            self.batch_id += 1
            target.merge(change, replace(MIRROR_COMMIT_ID, batch_id=self.batch_id))
        patched = set() if change.patches is None else set(change.patches.rows.column("id").to_pylist())
        self.check({*change.upserts.column("id").to_pylist(), *patched})

    def maintain(self) -> None:
        with closing(self.look()) as target:
            target.maintain(self.sink)
        self.check(set())

    def now(self) -> dict[int, tuple[int, int]]:
        with closing(self.look()) as target:
            rows = target.identified_rows().read_all()
        assert has_identity(rows.schema)
        columns = (rows.column(name).to_pylist() for name in (rows.column_names[0], *IDENTITY.names))
        return {key: (row_id, version) for key, row_id, version in zip(*columns, strict=True)}

    def check(self, modified: set[int]) -> None:
        """Rows that were there keep their ids; those of *modified* alone, and new ones, have a new version."""
        now, known = self.now(), self.known
        ids = [row_id for row_id, _ in now.values()]
        assert None not in ids
        assert len(set(ids)) == len(ids)
        last = max((version for _, version in known.values()), default=-1)
        for key, (row_id, version) in now.items():
            if key not in known:
                assert row_id not in self.used, key
            else:
                assert row_id == known[key][0], key
            assert version == known[key][1] if key in known and key not in modified else version > last, key
        self.known = now
        self.used |= set(ids)


@pytest.fixture
def table(request: pytest.FixtureRequest, tmp_path: Path, kind: TableFormat, merge: Merge) -> Iterator[IdentityTable]:
    access: dict[str, str] = request.getfixturevalue("catalog") if kind is TableFormat.ICEBERG else {}
    sink = Sink(
        directory=str(tmp_path / "tables"),
        format=kind,
        merge=merge,
        row_ids=True,
        catalog=access,
        target_file_size=1 << 20,
    )
    table = IdentityTable(sink)
    yield table
    if kind is TableFormat.ICEBERG:
        with closing(table.look()) as target:
            assert isinstance(target, IcebergTarget)
            target.catalog.drop_table(("shop", "orders"))


def patches_of(*ids: int) -> Patches:
    return Patches(numbers(*ids), pa.table({"value": [True] * len(ids)}))


@pytest.mark.parametrize(("kind", "merge"), KINDS)
def test_rows_keep_their_ids_whatever_becomes_of_their_files(table: IdentityTable) -> None:
    """Random batches; small files are joined on the way, and files with marked rows written anew."""
    draw = random.Random(seed())
    table.create()
    table.append(numbers(*range(40)))
    for _ in range(40):
        keys = draw.sample(range(60), 8)
        change = change_of([(key, "u") for key in keys[:3]], keys[3:6], patches=patches_of(*keys[6:]))
        table.merge(change)
        table.maintain()
    assert len(table.used) > len(table.known)
    with closing(table.look()) as target:
        if isinstance(target, DeltaTarget):  # a checkpoint has the ids, too
            log = read_log(target.store)
            assert log is not None
            assert log.checkpoint > 0
            assert (log.files, log.domains) == (target.log.files, target.log.domains)


@pytest.mark.parametrize(("kind", "merge"), KINDS)
def test_upserts_that_lack_columns_keep_ids(table: IdentityTable) -> None:
    schema = pa.schema([*INT_KEY, ("more", pa.int64())])
    table.create(schema)
    table.append(pa.table([[1, 2, 3], ["a", "b", "c"], [7, 8, 9]], schema=schema))
    table.merge(change_of([(1, "x"), (4, "new")], [3]))
    with closing(table.look()) as target:
        rows = {row["id"]: (row["value"], row["more"]) for row in target.read().read_all().to_pylist()}
    assert rows == {1: ("x", 7), 2: ("b", 8), 4: ("new", None)}


@pytest.mark.parametrize(("kind", "merge"), [case for case in KINDS if case.values[1] is Merge.MARK])
def test_parts_of_a_step_keep_ids_together(table: IdentityTable) -> None:
    """Keys that come again in a later part have the id that the table's row had."""
    table.create()
    table.append(numbers(1, 2, 3))
    keys = numbers(1, 9).select(["id"])
    with closing(table.look()) as target:
        parts = [
            target.merge_part(change_of([(1, "a"), (2, "a"), (9, "a")]), ("id",)),
            target.merge_part(change_of([(1, "b"), (9, "b")], [3]), ("id",)),
        ]
        parts.append(target.superseded_by_later_part(parts, keys, np.array([1, 1])))
        target.commit_parts(parts, replace(MIRROR_COMMIT_ID, batch_id=1))
        found = target.read().read_all().sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, "b"), (2, "a"), (9, "b")]
    table.check({1, 2})


@pytest.mark.parametrize(("kind", "merge"), KINDS)
def test_statements_that_write_rows_anew_keep_ids(table: IdentityTable) -> None:
    table.create()
    table.append(numbers(*range(6)))
    table.merge(change_of([(2, "y")], [5]))

    def commit(write: object, modified: set[int]) -> None:
        with closing(table.look()) as target:
            table.batch_id += 1
            write(target, replace(MIRROR_COMMIT_ID, batch_id=table.batch_id))  # type: ignore[operator]
        table.check(modified)

    everything = {0, 1, 2, 3, 4}
    added = SchemaChange(added=pa.schema([("more", pa.int32())]))
    commit(lambda target, commit_id: target.evolve(added, commit_id), set())
    filled = SchemaChange(filled={"more": pa.scalar(7, pa.int32())})
    commit(lambda target, commit_id: target.evolve(filled, commit_id), everything)
    converted = SchemaChange(converted={"value": lambda rows: pc.utf8_upper(rows.column("value"))})
    alteration = TargetAlteration(converted, removed=("more",))
    commit(alteration.bring_into, everything)

    def drop_partition(target: Target, commit_id: object) -> None:
        rows = left_rows(target, Mode.MIRROR, Deletes.REMOVE, 0, lambda batch: pc.equal(batch.column("id"), 3))
        assert rows is not None
        target.replace(rows, commit_id)  # type: ignore[arg-type]

    commit(drop_partition, set())
    assert set(table.known) == everything - {3}
    with closing(table.look()) as target:
        rows = {row["id"]: row["value"] for row in target.read().read_all().to_pylist()}
    assert rows == {0: "X", 1: "X", 2: "Y", 4: "X"}


@pytest.mark.parametrize(("kind", "merge"), [case for case in KINDS if case.values[1] is Merge.MARK])
def test_rows_that_a_truncate_marks_keep_ids(table: IdentityTable) -> None:
    table.create(MARKED_ROWS)
    none = pa.nulls(3, MARKED_ROWS.field(3).type)
    flags = pa.array([False, False, True])
    table.append(pa.table([numbers(1, 2, 3).column(0), numbers(1, 2, 3).column(1), flags, none], schema=MARKED_ROWS))
    with closing(table.look()) as target:
        rows = retained_rows(target, Mode.MIRROR, 77, target.schema())
        target.replace(rows, replace(MIRROR_COMMIT_ID, batch_id=1))
    table.check({1, 2})


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "merge"), KINDS)
def test_a_million_updates_change_no_id(table: IdentityTable) -> None:
    """A row in three is updated in each of three steps; maintenance writes files anew between them."""
    count, steps = 1_000_000, 3
    table.sink = structs.replace(table.sink, target_file_size=64 << 20)
    table.create()
    ids = pa.array(np.arange(count), pa.int32())
    with closing(table.look()) as target:
        rows = pa.table([ids, pa.nulls(count, pa.string())], schema=INT_KEY)
        target.append(rows.to_reader(), MIRROR_COMMIT_ID)

    def identities() -> pa.Table:
        with closing(table.look()) as target:
            return target.identified_rows().read_all().sort_by("id")

    before = identities()
    for step in range(steps):
        keys = pa.array(np.arange(step, count, steps), pa.int32())
        rows = pa.table([keys, pa.repeat(f"step {step}", len(keys))], schema=INT_KEY)
        with closing(table.look()) as target:
            target.merge(Change(rows, rows.select(["id"]).slice(0, 0)), replace(MIRROR_COMMIT_ID, batch_id=step + 1))
            target.maintain(table.sink)
        now = identities()
        assert now.column(IDENTITY.names[0]).equals(before.column(IDENTITY.names[0]))
        changed = pc.greater(now.column(IDENTITY.names[1]), before.column(IDENTITY.names[1]))
        assert pc.sum(changed).as_py() == len(keys)
        before = now
    assert pc.count(before.column("value")).as_py() == count
