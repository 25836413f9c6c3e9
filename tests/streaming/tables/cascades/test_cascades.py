"""What foreign keys do to child tables, and no log has: with `foreign_keys = "apply"` it is in their targets."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format.errors import UnsupportedError
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from tests.chance import examples
from tests.streaming.tables.cascades.cascade_model import CASCADE, SET_NULL, Key, LinkedTables, MemoryJob
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    from collections.abc import Callable

    Story = Callable[[LinkedTables], None]

COLUMNS = {
    "parent": ("id", "code"),
    "child": ("id", "p", "code"),
    "grandchild": ("id", "c", "p"),
    "pair": ("id", "b", "a"),
    "person": ("id", "boss", "mentor"),
    "badge": ("id", "number"),
}
P_KEY = Key("child", ("p",), "parent", ("id",), CASCADE, CASCADE)
KEYS = (
    P_KEY,
    Key("child", ("code",), "parent", ("code",), SET_NULL, SET_NULL),
    Key("grandchild", ("c",), "child", ("id",), CASCADE, CASCADE),
    Key("grandchild", ("p",), "child", ("p",), SET_NULL, CASCADE),
    Key("pair", ("a", "b"), "child", ("id", "p"), CASCADE, CASCADE),
    Key("badge", ("id",), "parent", ("id",), CASCADE, CASCADE),
    Key("person", ("boss",), "person", ("id",), CASCADE),
    Key("person", ("mentor",), "person", ("id",), SET_NULL),
)
PLACE = ("_commit_version", "_event_no", "_row_no")
ALL = {"select": r"shop\..*", "foreign_keys": "apply"}
_NUMBERS = st.integers(1, 4)
_VALUES = st.one_of(st.none(), _NUMBERS)
_CHANGES = st.lists(
    st.tuples(st.sampled_from(list(COLUMNS)), st.sampled_from("iiiudD"), _NUMBERS, _NUMBERS, _VALUES, _VALUES),
    min_size=4,
    max_size=40,
)


def play(tables: LinkedTables, changes: list[tuple[str, str, int, int, int | None, int | None]]) -> None:
    """Do what can be done of *changes*."""
    for table, kind, key, other, one, two in changes:
        rows = tables.rows[table]
        first, *columns = tables.columns[table]
        values = dict(zip(columns, (one, two), strict=False))
        if kind == "i" and key not in rows:
            tables.insert(table, {first: key, **values})
        elif kind == "u" and key in rows and table != "person" and (other == key or other not in rows):
            if table == "parent" and other != key and other in tables.rows["badge"]:
                continue  # its badge would have the key of another one
            tables.update(table, key, **{first: other, **values})
        elif kind in "dD" and key in rows:
            tables.delete(table, key)


def live(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """The rows that the source table has, of any target but a changelog."""
    found = [row for row in rows if row.get("_is_current", True) and not row.get("_deleted")]
    return [{name: value for name, value in row.items() if not name.startswith("_")} for row in found]


def replayed(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """What the rows of a changelog leave; each one finds what it says was there before."""
    held: dict[object, dict[str, object]] = {}
    for row in sorted(rows, key=lambda row: (row["_commit_version"], row["_event_no"], row["_row_no"])):
        (own,) = live([row])
        if row["_change_type"] in ("delete", "update_preimage"):
            assert held.pop(own["id"]) == own
        else:
            assert own["id"] not in held
            held[own["id"]] = own
    return list(held.values())


def expected(tables: LinkedTables, table: str) -> list[tuple[int | None, ...]]:
    return sorted((tuple(row.values()) for row in tables.rows[table].values()), key=repr)


def check(tables: LinkedTables, job: MemoryJob, name: str, place: str, *, changelog: bool = False) -> None:
    rows = job.rows(f"shop/{place}")
    found = replayed(rows) if changelog else live(rows)
    assert sorted((tuple(row.values()) for row in found), key=repr) == expected(tables, name), name


def written(folder: Path, story: Story, keys: tuple[Key, ...] = KEYS) -> LinkedTables:
    with ShopLog(folder / "log") as log:
        tables = LinkedTables(log, COLUMNS, keys)
        tables.create()
        story(tables)
    return tables


@given(
    changes=_CHANGES,
    actions=st.lists(st.sampled_from([CASCADE, SET_NULL, ""]), min_size=4, max_size=4),
    batches=st.integers(1, 6),
    cuts=st.lists(st.integers(1, 12), max_size=2),
)
@settings(max_examples=examples(40))
def test_targets_are_what_the_server_has_however_batches_are_cut(
    changes: list[tuple[str, str, int, int, int | None, int | None]], actions: list[str], batches: int, cuts: list[int]
) -> None:
    keys = (
        Key("child", ("p",), "parent", ("id",), actions[0], actions[1]),
        Key("child", ("code",), "parent", ("code",), actions[2], actions[3]),
        *KEYS[2:],
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = written(folder, lambda tables: play(tables, changes), keys)
        target = {"target": "{database}/{table}/{mode}"}
        for rule, places in (
            ({"mode": "mirror"}, ("mirror",)),
            ({"mode": "mirror", "deletes": "mark"}, ("mirror",)),
            ({"mode": ["changelog", "scd2"]}, ("scd2", "changelog")),
            ({"mode": "changelog"}, ("changelog",)),
        ):
            job = MemoryJob(folder, {**ALL, **target, **rule})
            job.run(batches, cuts)
            for table in COLUMNS:
                for mode in places:
                    check(tables, job, table, f"{table}/{mode}", changelog=mode == "changelog")


def two_levels(tables: LinkedTables) -> None:
    """Rows that refer to others; then one of these goes, comes again, and has children again."""
    for number in (1, 2):
        tables.insert("parent", {"id": number, "code": number})
        tables.insert("child", {"id": 10 * number, "p": number, "code": 2})
        tables.insert("grandchild", {"id": 100 * number, "c": 10 * number, "p": number})
    tables.delete("parent", 1)
    tables.insert("parent", {"id": 1, "code": 1})
    tables.insert("child", {"id": 11, "p": 1, "code": None})
    tables.update("parent", 2, id=3)


@pytest.mark.thorough_where("7|12")
@pytest.mark.parametrize("batches", [1, 7, 12])
def test_each_step_that_is_cut_off_is_done_again_with_the_same_result(tmp_path: Path, batches: int) -> None:
    tables = written(tmp_path, two_levels)
    for cut in range(1, 60):
        job = MemoryJob(tmp_path, {**ALL, "mode": ["changelog", "mirror"], "target": "{table}/{mode}"})
        cuts = job.run(batches, [cut])
        for table in COLUMNS:
            for mode in ("mirror", "changelog"):
                rows = job.rows(f"{table}/{mode}")
                found = replayed(rows) if mode == "changelog" else live(rows)
                assert sorted((tuple(row.values()) for row in found), key=repr) == expected(tables, table), (cut, table)
        if not cuts:
            return
    raise AssertionError("there are more steps")


@pytest.mark.parametrize("evidence", ["keys", "rows"])
def test_what_foreign_keys_do_is_no_image_to_compare_rows_with(tmp_path: Path, evidence: str) -> None:
    """A delete that is carried on shows the key alone; the other columns of the target's row prove nothing."""
    with ShopLog(tmp_path / "log") as log:
        tables = LinkedTables(log, {"parent": ("id",), "child": ("id", "p", "note")}, (P_KEY,))
        tables.create()
        tables.insert("parent", {"id": 1})
        tables.insert("child", {"id": 10, "p": 1, "note": 7})
        for number in range(2, 6):
            tables.insert("parent", {"id": number})
        tables.delete("parent", 1)
    job = MemoryJob(tmp_path, {**ALL, "target": "{table}", "evidence": evidence})
    job.run(6)
    assert live(job.rows("child")) == []
    assert {row["id"] for row in live(job.rows("parent"))} == {2, 3, 4, 5}


def test_row_of_a_changelog_names_the_table_whose_change_was_carried_on(tmp_path: Path) -> None:
    written(tmp_path, two_levels)
    job = MemoryJob(tmp_path, {**ALL, "mode": "changelog"})
    job.run(1)
    rows = sorted(job.rows("shop/grandchild"), key=lambda row: (row["_commit_version"], row["_row_no"]))
    assert [(row["id"], row["_change_type"], row["_cascaded_from"]) for row in rows] == [
        (100, "insert", None),
        (200, "insert", None),
        (100, "delete", "shop.parent"),
        (200, "update_preimage", "shop.parent"),
        (200, "update_postimage", "shop.parent"),
    ]
    (parent,) = (row for row in job.rows("shop/parent") if row["_change_type"] == "delete")
    place = ("_commit_version", "_commit_timestamp", "_position", "_event_no", "_row_no", "_gtid")
    assert [rows[2][name] for name in place] == [parent[name] for name in place]


def test_version_ends_when_its_parent_goes(tmp_path: Path) -> None:
    written(tmp_path, two_levels)
    job = MemoryJob(tmp_path, {**ALL, "mode": "scd2"})
    job.run(5)
    ended = {row["id"]: row for row in job.rows("shop/child") if not row["_is_current"]}
    parents = [row for row in job.rows("shop/parent") if not row["_is_current"]]
    assert {row["_valid_to"] for row in parents} == {ended[10]["_valid_to"], ended[20]["_valid_to"]}
    assert None not in {row["_valid_to"] for row in ended.values()}


@pytest.mark.parametrize("select", [r"shop\.(child|grandchild)", r"shop\.child"])
def test_parent_need_not_be_selected(tmp_path: Path, select: str) -> None:
    tables = written(tmp_path, two_levels)
    job = MemoryJob(tmp_path, {**ALL, "select": select})
    job.run(4)
    check(tables, job, "child", "child")


def test_child_of_a_child_that_is_not_selected_is_refused(tmp_path: Path) -> None:
    written(tmp_path, two_levels)
    wanted = r"FOREIGN_KEY_CASCADE\].* shop\.grandchild.*it comes through shop\.child, for which it is not done"
    with pytest.raises(UnsupportedError, match=wanted):
        MemoryJob(tmp_path, {**ALL, "select": r"shop\.(parent|grandchild)"}).run(1)


PARENT = TableSpec("shop", "parent", (ColumnSpec("id", "int"), ColumnSpec("code", "int")), ("id",))


@pytest.mark.parametrize("rule", [{}, {"mode": "changelog"}])
def test_child_without_a_key_is_refused_where_only_a_key_tells_what_becomes_of_its_rows(
    tmp_path: Path, rule: dict[str, str]
) -> None:
    loose = TableSpec("shop", "loose", (ColumnSpec("p", "int"),), ())
    with ShopLog(tmp_path / "log") as log:
        tables = LinkedTables(log, {"parent": ("id", "code")}, ())
        tables.create()
        log.statement(f"CREATE TABLE loose (p INT, {P_KEY.sql})")
        tables.insert("parent", {"id": 1, "code": 1})
        log.insert(loose, (1,))
    MemoryJob(tmp_path, {**ALL, **rule}).run(1)
    with ShopLog(tmp_path / "log", first=100) as log:
        if rule:
            log.delete(PARENT, (1, 1))
        else:
            log.update(PARENT, ((1, 1), (2, 1)))
    with pytest.raises(UnsupportedError, match=r"FOREIGN_KEY_CASCADE\] .*shop\.loose.*no primary key"):
        MemoryJob(tmp_path, {**ALL, **rule}).run(1)
    job = MemoryJob(tmp_path, {**ALL, **rule, "select": "shop.loose", "keys": ["p"]})
    job.run(1)
    assert [row["p"] for row in job.rows("shop/loose")] == ([1, 1] if rule else [2])


@pytest.mark.parametrize("batches", [1, 9])
def test_child_whose_key_column_is_dropped_goes_on_without_a_key(tmp_path: Path, batches: int) -> None:
    child = TableSpec("shop", "child", (ColumnSpec("id", "int"), ColumnSpec("p", "int")), ("id",))
    keyless = TableSpec("shop", "child", (ColumnSpec("p", "int"),), ())
    with ShopLog(tmp_path / "log") as log:
        tables = LinkedTables(log, {"parent": ("id", "code")}, ())
        tables.create()
        log.statement(f"CREATE TABLE child (id INT PRIMARY KEY, p INT, {P_KEY.sql})")
        tables.insert("parent", {"id": 1, "code": 1})
        tables.insert("parent", {"id": 2, "code": 2})
        log.insert(child, (1, 1), (2, 2))
        log.statement("ALTER TABLE child DROP COLUMN id")
        log.insert(keyless, (1,), (2,))
        tables.delete("parent", 1)
    job = MemoryJob(tmp_path, ALL)
    job.run(batches)
    assert [row["p"] for row in job.rows("shop/child")] == [2, 2]


@pytest.mark.parametrize(
    ("referring", "left"),
    [("de", []), ("fr", [(1, "fr")]), ("DE", None), ("dé", None), ("de ", None), (None, [(1, None)])],
)
def test_text_is_matched_where_every_collation_agrees(
    tmp_path: Path, referring: str | None, left: list[tuple[int, str | None]] | None
) -> None:
    code = ColumnSpec("code", "varchar(9)", nullable=True)
    parent = TableSpec("shop", "country", (code,), ("code",))
    child = TableSpec("shop", "town", (ColumnSpec("id", "int"), code), ("id",))
    with ShopLog(tmp_path / "log") as log:
        log.statement("CREATE TABLE country (code VARCHAR(9) PRIMARY KEY)")
        log.statement(
            "CREATE TABLE town (id INT PRIMARY KEY, code VARCHAR(9), "
            "FOREIGN KEY (code) REFERENCES country (code) ON DELETE CASCADE)"
        )
        log.insert(parent, ("de",), ("fr",))
        log.insert(child, (1, referring))
        log.delete(parent, ("de",))
    job = MemoryJob(tmp_path, ALL)
    if left is None:
        with pytest.raises(UnsupportedError, match=r"FOREIGN_KEY_CASCADE\] .*the collation decides"):
            job.run(2)
        return
    job.run(2)
    assert [tuple(row.values()) for row in job.rows("shop/town")] == left


_LOOSE = st.lists(
    st.tuples(st.sampled_from("iiiiiduDP"), st.integers(1, 2), st.sampled_from([None, 1, 1])), min_size=6, max_size=30
)


@given(changes=_LOOSE, batches=st.integers(1, 5), cuts=st.lists(st.integers(1, 12), max_size=2))
@settings(max_examples=examples(60))
def test_equal_rows_of_a_child_without_a_key_go_with_their_parent(
    changes: list[tuple[str, int, int | None]], batches: int, cuts: list[int]
) -> None:
    loose = TableSpec("shop", "loose", (ColumnSpec("p", "int"), ColumnSpec("n", "int", nullable=True)), ())
    rows: list[tuple[int, int | None]] = []
    with tempfile.TemporaryDirectory() as name:
        with ShopLog(Path(name) / "log") as log:
            tables = LinkedTables(log, {"parent": ("id", "code")}, ())
            tables.create()
            for parent in (1, 2):
                tables.insert("parent", {"id": parent, "code": parent})
            log.statement(f"CREATE TABLE loose (p INT, n INT, {P_KEY.sql})")
            for kind, parent, number in changes:
                row = (parent, number)
                if kind == "P" and parent in tables.rows["parent"]:
                    tables.delete("parent", parent)
                    rows = [one for one in rows if one[0] != parent]
                elif kind == "P":
                    tables.insert("parent", {"id": parent, "code": parent})
                elif kind == "i" and parent in tables.rows["parent"]:
                    log.insert(loose, row)
                    rows.append(row)
                elif kind in "dD" and row in rows:
                    log.delete(loose, row)
                    rows.remove(row)
                elif kind == "u" and row in rows:
                    log.update(loose, (row, (parent, 7)))
                    rows[rows.index(row)] = (parent, 7)
        job = MemoryJob(Path(name), {**ALL, "mode": ["mirror", "changelog"], "target": "{table}/{mode}"})
        job.run(batches, cuts)
        found = [tuple(row.values()) for row in job.rows("loose/mirror")]
        assert sorted(found, key=repr) == sorted(rows, key=repr)
        left: list[object] = []
        for change in sorted(job.rows("loose/changelog"), key=lambda change: [change[one] for one in PLACE]):
            (own,) = live([change])
            if change["_change_type"] in ("delete", "update_preimage"):
                left.remove(tuple(own.values()))
            else:
                left.append(tuple(own.values()))
        assert sorted(left, key=repr) == sorted(rows, key=repr)
