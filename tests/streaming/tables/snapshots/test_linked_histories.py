"""Snapshots of tables that foreign keys link, in any order, between any changes: a complete table equals the server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from binlog_format import open_log
from binlog_streaming.lake.commit_id import COMPLETE_PROPERTY
from binlog_streaming.settings import Begin, Deletes, Mode, OnError, TableRule
from binlog_streaming.settings.choices import OnCascade
from tests.chance import examples
from tests.streaming.tables.batches import cut
from tests.streaming.tables.cascades.cascade_model import CASCADE, SET_NULL, Key, LinkedTables
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.snapshots.snapshot_log import ShopSnapshot, SnapshotJob, begin_late
from tests.streaming.tables.snapshots.test_interleavings import write

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest


COLUMNS = {"orders": ("id",), "items": ("id", "of", "with"), "parts": ("id", "of")}
_RULE = TableRule(target="{table}", begin=Begin.SNAPSHOT, foreign_keys=OnCascade.APPLY)
RULES = (
    _RULE,
    msgspec.structs.replace(_RULE, deletes=Deletes.MARK),
    msgspec.structs.replace(_RULE, mode=Mode.SCD2),
    msgspec.structs.replace(_RULE, select=r"shop\.(items|parts)"),
    msgspec.structs.replace(_RULE, select=r"shop\.(orders|parts)"),
)
CHUNKS = ((0, 2), (2, 3), (3, 9))
"""Keys of the rows of each chunk."""

Action = tuple[str, str, int, int, int | None]
"""What is done, to which table, to which key; another key, and a value."""


@dataclass
class LinkedServer:
    """Tables that are older than the log, with their snapshots.

    Attributes:
        open: The snapshots that have begun and not ended, and the chunks that are left of each.
    """

    tables: LinkedTables
    open: dict[str, tuple[ShopSnapshot, list[tuple[int, int]]]] = field(default_factory=dict)

    def exist(self) -> None:
        """Have three rows in each table, which refer to one another, and foreign keys that the log states."""
        for name, (key, *columns) in self.tables.columns.items():
            self.tables.rows[name] = {number: {key: number, **dict.fromkeys(columns, number)} for number in (1, 2, 3)}
        for link in self.tables.keys:
            self.tables.log.statement(f"ALTER TABLE {link.child} ADD {link.sql}")

    def do(self, action: Action) -> None:
        """Do it if it can be done."""
        kind, table, key, other, value = action
        rows, (name, *columns) = self.tables.rows[table], self.tables.columns[table]
        values = dict.fromkeys(columns, value)
        if kind == "insert" and key not in rows:
            self.tables.insert(table, {name: key, **values})
        elif kind == "update" and key in rows and columns:
            self.tables.update(table, key, **{columns[other % len(columns)]: value})
        elif kind == "move" and key in rows and other not in rows:
            self.tables.update(table, key, **{name: other})
        elif kind == "delete" and key in rows:
            self.tables.delete(table, key)
        elif kind == "truncate" and not any(link.parent == table for link in self.tables.keys):
            self.tables.truncate(table)
        elif kind == "begin" and table not in self.open:
            self.begin(table, ("complete", "resync")[key % 2])
        elif kind == "chunk" and self.open:
            self.chunk(table if table in self.open else next(iter(self.open)))

    def begin(self, table: str, purpose: str) -> None:
        """Begin a snapshot."""
        snapshot = ShopSnapshot(self.tables.log, self.tables.spec(table), purpose)
        snapshot.begin()
        self.open[table] = snapshot, list(CHUNKS)

    def chunk(self, table: str) -> None:
        """The next chunk, as the rows are now; the snapshot ends with its last one."""
        snapshot, left = self.open[table]
        low, high = left.pop(0)
        snapshot.chunk([tuple(row.values()) for key, row in self.tables.rows[table].items() if low <= key < high])
        if not left:
            snapshot.end()
            del self.open[table]


def complete(job: SnapshotJob) -> set[str]:
    """Tables that are said to have all rows, and go on."""
    record = job.keeper.record
    lacking = {table for _, table in record.incomplete} | {stopped.table for stopped in record.set_aside}
    return {table for _, table in record.complete} - lacking


def stated_complete(job: SnapshotJob) -> set[str]:
    """Tables whose targets state that they have all rows, without those that do not go on."""
    stopped = {stopped.table for stopped in job.keeper.record.set_aside}
    targets = job.targets.tables.items()
    return {name for name, target in targets if target.properties[COMPLETE_PROPERTY] == "true"} - stopped


def mirrored(job: SnapshotJob, table: str) -> list[dict[str, object]]:
    """What a target has, by its key, without rows that are marked as deleted, and without older versions."""
    found = job.targets.tables.get(table)
    rows = [] if found is None else found.rows
    hold = (row for row in rows if not row.get("_deleted") and row.get("_is_current", True))
    return sorted(({name: row[name] for name in COLUMNS[table]} for row in hold), key=lambda row: str(row["id"]))


def true_rows(server: LinkedServer, table: str) -> list[dict[str, int | None]]:
    return [row for _, row in sorted(server.tables.rows[table].items())]


_NUMBERS = st.integers(1, 4)
_KINDS = ["insert", "update", "move", "truncate", *["begin"] * 2, *["delete"] * 3, *["chunk"] * 6]
ACTIONS = st.tuples(st.sampled_from(_KINDS), st.sampled_from(list(COLUMNS)), _NUMBERS, _NUMBERS, st.none() | _NUMBERS)
RULES_OF_KEYS = st.sampled_from([(CASCADE, CASCADE), (CASCADE, ""), (SET_NULL, CASCADE), (SET_NULL, SET_NULL), None])


def keys_of(actions: Sequence[tuple[str, str] | None]) -> list[Key]:
    """Foreign keys with these actions, in order: a chain, and one that leads back into its table, or a circle."""
    links = (
        ("items", "of", "orders"),
        ("parts", "of", "items"),
        ("items", "with", "items"),
        ("items", "with", "parts"),
    )
    named = zip(links, actions, strict=True)
    return [Key(child, (column,), parent, ("id",), *some) for (child, column, parent), some in named if some]


def test_complete_tables_equal_the_server(tmp_path_factory: pytest.TempPathFactory) -> None:
    @settings(max_examples=examples(150), phases=[Phase.explicit, Phase.generate])
    @given(
        st.tuples(*[RULES_OF_KEYS] * 4),
        st.lists(ACTIONS, min_size=10, max_size=40),
        st.lists(st.none() | st.integers(1, 12), min_size=1, max_size=6),
        st.sampled_from(RULES),
    )
    def attempt(
        actions_of_keys: Sequence[tuple[str, str] | None],
        actions: list[Action],
        crashes: list[int | None],
        rule: TableRule,
    ) -> None:
        folder = tmp_path_factory.mktemp("story")
        with ShopLog(folder / "log") as log:
            begin_late(log)
            server = LinkedServer(LinkedTables(log, COLUMNS, keys_of(actions_of_keys)))
            server.exist()
            for action in actions:
                server.do(action)
        job = SnapshotJob(folder, (rule,), OnError.SET_ASIDE, follows_keys=True)
        with open_log(str(folder / "log")) as opened:
            for batch_id, batch in enumerate(cut(opened, len(crashes))):
                write(job, opened, batch, batch_id, crashes[batch_id])
        for table in complete(job):
            assert mirrored(job, table) == true_rows(server, table), table
        assert stated_complete(job) == complete(job) & job.targets.tables.keys()

    attempt()
