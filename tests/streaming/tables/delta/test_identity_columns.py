"""Identity columns GENERATED ALWAYS of Delta tables: each new row gets its own number, once, and keeps it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as with_fields

from binlog_format.errors import TableError
from binlog_streaming.lake.change import Patches
from binlog_streaming.lake.delta.features import FEED, with_properties
from binlog_streaming.lake.delta.generated import EXPLICIT, NUMBERED, IdentityColumn
from binlog_streaming.lake.delta.log import make_commit
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.lake.evolution import SchemaChange
from binlog_streaming.settings import Merge, Mode, Sink
from tests.streaming.tables.lake.sink_cases import INT_KEY, MIRROR_COMMIT_ID, change_of, numbers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MERGES = pytest.mark.parametrize("merge", [Merge.REWRITE, Merge.MARK])
FACTS: Mapping[str, object] = {EXPLICIT: False, "delta.identity.start": 10, "delta.identity.step": 5}


def find(path: Path, merge: Merge = Merge.AUTO) -> DeltaTarget:
    return DeltaTarget.at(Sink(directory="", merge=merge), str(path))


def give(path: Path, facts: Mapping[str, object], properties: Mapping[str, str]) -> None:
    """Let the last column of a table be an identity column."""
    target = find(path)
    metadata = target.log.metadata
    schema = json.loads(metadata.schema_string)
    schema["fields"][-1]["metadata"] = facts
    metadata = with_fields(with_properties(metadata, properties), schema_string=json.dumps(schema))
    make_commit(target.store, target.log, "ALTER", [("metaData", metadata)])


def made(path: Path, facts: Mapping[str, object] = FACTS, mode: Mode = Mode.MIRROR, feed: str = "false") -> None:
    find(path).create(pa.schema([*INT_KEY, ("n", pa.int64())]), replace(MIRROR_COMMIT_ID, mode=mode))
    give(path, facts, {FEED: feed})


def numbered(path: Path) -> dict[int, int]:
    rows = find(path).read().read_all().to_pylist()
    found = {row["id"]: row["n"] for row in rows}
    assert len(set(found.values())) == len(rows)
    return found


def last_of(path: Path) -> int | None:
    log = find(path).log
    assert log is not None
    facts = json.loads(log.metadata.schema_string)["fields"][-1]["metadata"]
    assert facts.items() >= FACTS.items()
    last: int | None = facts.get("delta.identity.highWaterMark")
    return last


@MERGES
def test_new_rows_are_numbered_and_others_keep_their_numbers(tmp_path: Path, merge: Merge) -> None:
    path = tmp_path / "table"
    made(path)
    find(path).append(numbers(1, 2, 3).to_reader(), MIRROR_COMMIT_ID)
    assert (numbered(path), last_of(path)) == ({1: 10, 2: 15, 3: 20}, 20)
    patches = Patches(
        pa.table({"id": pa.array([1], pa.int32()), "value": ["p"]}), pa.table({"value": [True]}).select([])
    )
    target = find(path, merge)
    target.merge(change_of([(2, "u"), (4, "n"), (5, "n")], [3], patches=patches), replace(MIRROR_COMMIT_ID, batch_id=1))
    assert (numbered(path), last_of(path)) == ({1: 10, 2: 15, 4: 25, 5: 30}, 30)
    # Where nothing is new, nothing moves; and what writes all rows anew leaves their numbers.
    target.merge(change_of([(2, "w")]), replace(MIRROR_COMMIT_ID, batch_id=2))
    renamed = SchemaChange(renamed={"value": "name"})
    target.evolve(renamed, replace(MIRROR_COMMIT_ID, batch_id=3))
    target.replace(target.read(), replace(MIRROR_COMMIT_ID, batch_id=4))
    assert (numbered(path), last_of(path)) == ({1: 10, 2: 15, 4: 25, 5: 30}, 30)
    find(path, merge).append(
        numbers(6).rename_columns(["id", "name"]).to_reader(), replace(MIRROR_COMMIT_ID, batch_id=5)
    )
    assert (numbered(path)[6], last_of(path)) == (35, 35)


@MERGES
def test_a_step_after_another_writer_s_numbers_is_done_again(tmp_path: Path, merge: Merge) -> None:
    path = tmp_path / "table"
    made(path)
    late = find(path, merge)
    find(path).append(numbers(1).to_reader(), MIRROR_COMMIT_ID)
    commit_id = replace(MIRROR_COMMIT_ID, query_id="q-2")
    with pytest.raises(CommitFailedError):
        late.append(numbers(2, 3).to_reader(), commit_id)
    again = find(path, merge)
    assert not again.is_done(commit_id)
    again.append(numbers(2, 3).to_reader(), commit_id)
    assert again.is_done(commit_id)
    assert (numbered(path), last_of(path)) == ({1: 10, 2: 15, 3: 20}, 20)
    assert len([*path.glob("*.parquet")]) == 2


def test_spark_can_tell_a_commit_that_only_moves_the_numbers(tmp_path: Path) -> None:
    path = tmp_path / "table"
    made(path)
    find(path).append(numbers(1).to_reader(), MIRROR_COMMIT_ID)
    target = find(path, Merge.MARK)
    target.merge(change_of([(2, "x")], [1]), replace(MIRROR_COMMIT_ID, batch_id=1))
    tags = [json.loads(file.read_text().splitlines()[0])["commitInfo"].get("tags") for file in commits(path)[-2:]]
    assert tags == [{NUMBERED: "true"}, {NUMBERED: "true"}]


def commits(path: Path) -> list[Path]:
    return sorted((path / "_delta_log").glob("*.json"))


def test_rows_that_bring_the_column_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "table"
    made(path)
    rows = numbers(1).append_column("N", pa.array([7], pa.int64()))
    named = r"TABLE_FEATURE\] new rows have a column n \(identityColumns GENERATED ALWAYS\), .* makes itself"
    with pytest.raises(TableError, match=named) as refused:
        find(path).append(rows.to_reader(), MIRROR_COMMIT_ID)
    assert "BY DEFAULT" in str(refused.value.hint)
    schema = pa.schema([*INT_KEY, ("n", pa.int64())])
    with pytest.raises(TableError, match=named):
        find(path).merge(change_of([(1, "x", 7)], schema=schema), MIRROR_COMMIT_ID)
    assert numbered(path) == {}


def test_a_change_feed_of_a_mirror_is_refused_and_that_of_a_changelog_is_not(tmp_path: Path) -> None:
    made(tmp_path / "mirror", feed="true")
    with pytest.raises(TableError, match="identityColumns GENERATED ALWAYS beside changeDataFeed") as refused:
        find(tmp_path / "mirror")
    assert "UNSET TBLPROPERTIES ('delta.enableChangeDataFeed')" in str(refused.value.hint)
    made(tmp_path / "changelog", mode=Mode.CHANGELOG, feed="true")
    find(tmp_path / "changelog").append(numbers(1).to_reader(), MIRROR_COMMIT_ID)
    assert numbered(tmp_path / "changelog") == {1: 10}


def test_an_identity_column_that_does_not_tell_its_numbers_is_refused(tmp_path: Path) -> None:
    made(tmp_path / "table", {EXPLICIT: False, "delta.identity.start": 1})
    with pytest.raises(TableError, match=r"identityColumns GENERATED ALWAYS without start or step \(column n\)"):
        find(tmp_path / "table")


def test_no_number_is_given_beyond_64_bits(tmp_path: Path) -> None:
    path = tmp_path / "table"
    made(path, {**FACTS, "delta.identity.highWaterMark": 2**63 - 8})
    find(path).append(numbers(1).to_reader(), MIRROR_COMMIT_ID)
    with pytest.raises(TableError, match=r"TABLE_FEATURE\] .*/table: the next numbers of column n .* 64 bits"):
        find(path).append(numbers(2).to_reader(), replace(MIRROR_COMMIT_ID, batch_id=1))
    assert numbered(path) == {1: 2**63 - 3}


@given(
    start=st.integers(-20, 20),
    step=st.integers(-7, 7).filter(bool),
    last=st.none() | st.integers(-40, 40),
    batches=st.lists(st.lists(st.none() | st.integers(), max_size=4), max_size=4),
)
def test_numbers_go_on_from_the_last_one_by_whole_steps(
    start: int, step: int, last: int | None, batches: list[list[int | None]]
) -> None:
    """Also from a last one that is on no step, or before the start."""
    column = IdentityColumn("n", start, step, last)
    wanted = start
    while last is not None and (last - wanted) * step >= 0:
        wanted += step
    for batch in batches:
        given_ = [value if value is None else value % 2**62 for value in batch]
        rows = column.put("t", pa.table({"n": pa.array(given_, pa.int64())}))
        expected = []
        for value in given_:
            expected.append(wanted if value is None else value)
            wanted += step if value is None else 0
        assert rows.column("n").to_pylist() == expected
    if any(None in batch for batch in batches):
        assert column.last == wanted - step
    else:
        assert column.last == last
