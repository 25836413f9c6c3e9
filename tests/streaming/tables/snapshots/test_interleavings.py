"""Changes and chunks in any order, in any batches, each done again from any crash point: tables equal the server."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from binlog_connector.crash_points import watched
from binlog_format import open_log
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.settings import Begin, Deletes, Mode, TableRule
from tests.chance import examples
from tests.faults.processes import Killed
from tests.streaming.tables.batches import cut
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.snapshots.snapshot_log import ShopSnapshot, SnapshotJob, begin_late

if TYPE_CHECKING:
    from binlog_format.log.log import Log
    from tests.streaming.tables.batches import Range
    from tests.streaming.tables.lake.memory_target import MemoryTargets

KEYS = 6
COLUMNS = (ColumnSpec("id", "int"), ColumnSpec("name", "varchar(20)", nullable=True))
ORDERS = TableSpec("shop", "orders", COLUMNS, ("id",))
OTHER = TableSpec("shop", "other", ORDERS.columns, ("id",))

Rows = dict[int, str | None]


@dataclass
class Server:
    """A table, and what it had after each of its transactions.

    Attributes:
        rows: Of `shop.orders`.
        states: The same after each event group of the log, by the number of groups.
    """

    log: ShopLog
    rows: Rows
    states: list[Rows] = field(default_factory=list)
    snapshot: ShopSnapshot | None = None
    left: list[tuple[int, int]] = field(default_factory=list)

    def do(self, action: tuple[str, int, int]) -> None:
        kind, key, other = action
        if kind == "write":
            self._write(key, f"v{other}")
        elif kind == "delete" and key in self.rows:
            self.log.delete(ORDERS, (key, self.rows.pop(key)))
        elif kind == "move" and key in self.rows and other not in self.rows:
            value = self.rows.pop(key)
            self.log.update(ORDERS, ((key, value), (other, value)))
            self.rows[other] = value
        elif kind == "truncate":
            self.log.statement("TRUNCATE orders")
            self.rows.clear()
        elif kind == "other":
            self.log.insert(OTHER, (key * KEYS + other + 100 * len(self.states), "x"))
        elif kind == "begin":
            self.begin(("complete", "resync")[key % 2])
        elif kind == "chunk" and self.left:
            self.chunk()
        else:
            return
        self._note()

    def begin(self, purpose: str) -> None:
        self.snapshot = ShopSnapshot(self.log, ORDERS, purpose)
        self.snapshot.begin()
        self._note()  # of the shadow
        self.left = [(0, 2), (2, 3), (3, KEYS)]

    def chunk(self) -> None:
        assert self.snapshot is not None
        low, high = self.left.pop(0)
        self.snapshot.chunk([(key, value) for key, value in self.rows.items() if low <= key < high])
        if not self.left:
            self._note()
            self.snapshot.end()

    def finish(self) -> None:
        if not self.left:
            self.do(("begin", 0, 0))
        while self.left:
            self.do(("chunk", 0, 0))

    def _write(self, key: int, value: str) -> None:
        if key in self.rows:
            self.log.update(ORDERS, ((key, self.rows[key]), (key, value)))
        else:
            self.log.insert(ORDERS, (key, value))
        self.rows[key] = value

    def _note(self) -> None:
        self.states.append(dict(self.rows))


def mirrored(targets: MemoryTargets, uri: str, *, marked: bool = False) -> Rows:
    """Rows of a mirror."""
    rows: list[dict[str, Any]] = list(targets.tables[uri].rows) if uri in targets.tables else []
    return {row["id"]: row["name"] for row in rows if not (marked and row["_deleted"])}


def current(targets: MemoryTargets, uri: str) -> Rows:
    """Rows of the versions that hold."""
    found: Rows = {}
    versions: list[dict[str, Any]] = list(targets.tables[uri].rows) if uri in targets.tables else []
    for row in versions:
        assert row["_is_current"] == (row["_valid_to"] is None)
        if row["_is_current"]:
            assert row["id"] not in found
            found[row["id"]] = row["name"]
    return found


def replayed(targets: MemoryTargets, uri: str) -> Rows:
    """What the changes of a changelog, done one after the other, leave."""
    rows: Rows = {}
    changes: list[dict[str, Any]] = list(targets.tables[uri].rows) if uri in targets.tables else []
    for row in sorted(changes, key=lambda row: (row["_commit_version"], row["_event_no"], row["_row_no"])):
        match row["_change_type"]:
            case "truncate":
                rows.clear()
            case "insert" | "update_postimage":
                rows[row["id"]] = row["name"]
            case "delete" | "update_preimage":
                rows.pop(row["id"], None)
    return rows


RULE = TableRule(mode=(Mode.MIRROR, Mode.SCD2, Mode.CHANGELOG), target="{mode}/{table}", begin=Begin.SNAPSHOT)
MARKED = TableRule(mode=Mode.MIRROR, target="{mode}/{table}", begin=Begin.SNAPSHOT, deletes=Deletes.MARK)


def check(job: SnapshotJob, server: Rows, rule: TableRule) -> None:
    assert mirrored(job.targets, "mirror/orders", marked=rule is MARKED) == server
    if Mode.SCD2 in rule.modes:
        assert current(job.targets, "scd2/orders") == server
        assert replayed(job.targets, "changelog/orders") == server


def groups_between(log: Log, part: Range) -> int:
    return sum(int(block.groups["has_gtid"].sum()) for block in log.blocks(*part))


def write(job: SnapshotJob, log: Log, batch: Range, batch_id: int, crash: int | None) -> None:
    """A batch; *crash*: it ends at that crash point, or after the record was written, and is done again."""
    if crash is not None:
        points = 0

        def reach(point: object) -> None:
            nonlocal points
            points += 1
            if points == crash:
                raise Killed

        with watched(reach), suppress(Killed):
            job.write(log, batch, batch_id)
    job.write(log, batch, batch_id)


ACTIONS = st.tuples(
    st.sampled_from(4 * ["write"] + 2 * ["delete", "move", "chunk"] + ["other", "begin", "truncate"]),
    st.integers(0, KEYS - 1),
    st.integers(0, KEYS - 1),
)


@pytest.mark.parametrize("rule", [RULE, MARKED], ids=["modes", "marked"])
def test_tables_equal_the_server(rule: TableRule, tmp_path_factory: pytest.TempPathFactory) -> None:
    @settings(max_examples=examples(100), phases=[Phase.explicit, Phase.generate])
    @given(
        st.dictionaries(st.integers(0, KEYS - 1), st.sampled_from(["a", "b"])),
        st.lists(ACTIONS, max_size=25),
        st.integers(1, 8),
        st.lists(st.none() | st.integers(1, 12), min_size=8, max_size=8),
    )
    def attempt(existing: Rows, actions: list[tuple[str, int, int]], batches: int, crashes: list[int | None]) -> None:
        folder = tmp_path_factory.mktemp("story")
        with ShopLog(folder / "log") as log:
            begin_late(log)
            server = Server(log, dict(existing))
            for action in actions:
                server.do(action)
            server.finish()
            server.do(("other", 0, 0))
        job = SnapshotJob(folder, (rule,))
        with open_log(str(folder / "log")) as opened:
            start = opened.start_position()
            for batch_id, batch in enumerate(cut(opened, batches)):
                write(job, opened, batch, batch_id, crashes[batch_id])
                if ("shop", "orders") in job.keeper.record.complete:
                    check(job, server.states[groups_between(opened, (start, batch[1])) - 1], rule)
        assert ("shop", "orders") in job.keeper.record.complete
        check(job, server.rows, rule)

    attempt()
