"""Random histories of rows and statements, in random batches, cut off anywhere and repeated: tables hold the truth."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_connector.crash_points import watched
from binlog_format import open_log
from binlog_streaming.settings import Deletes, Mode, TableRule
from tests.chance import examples
from tests.faults.processes import Cut, CutOff
from tests.streaming.tables.batches import cut, plan, write, written_behind
from tests.streaming.tables.lake.memory_target import MemoryTargets
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.statements.ddl_histories import ModelServer

if TYPE_CHECKING:
    import pytest

    from binlog_format.log.log import Log
    from binlog_streaming.plan.job_state import Written

RULES = (TableRule(), TableRule(deletes=Deletes.MARK), TableRule(mode=Mode.SCD2))


def write_with_faults(log: Log, targets: MemoryTargets, batches: int, chance: random.Random, rule: TableRule) -> None:
    """Every batch is done until it is done as a whole, the first tries cut off somewhere.

    The targets of tables that are gone are taken away now and then, as people do.
    """
    written: Written = {}
    for batch_id, batch in enumerate(cut(log, batches)):
        for _ in range(chance.randrange(3)):
            try:
                with watched(CutOff(chance.randint(1, 12))):
                    write(log, batch, "memory", batch_id, (rule,), targets=targets, written=written)
            except Cut:
                continue
        tables = write(log, batch, "memory", batch_id, (rule,), targets=targets, written=written)
        planned = plan(log, batch, (rule,), written=written)
        written = written_behind(written, planned, tables)
        for name in sorted(planned.state_change.gone):
            if chance.random() < 0.5:
                targets.tables.pop(f"{name.database}/{name.table}", None)


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32 - 1), batches=st.integers(1, 6), rule=st.sampled_from(RULES))
def test_tables_equal_the_model(
    tmp_path_factory: pytest.TempPathFactory, seed: int, batches: int, rule: TableRule
) -> None:
    chance = random.Random(seed)
    folder = tmp_path_factory.mktemp("history")
    with ShopLog(folder) as writer:
        server = ModelServer(writer, chance)
        server.create()
        server.create()
        server.live(30)
    targets = MemoryTargets()
    with open_log(str(folder)) as log:
        write_with_faults(log, targets, batches, chance, rule)
    check(server, targets)


def check(server: ModelServer, targets: MemoryTargets) -> None:
    for name in server.tables:
        wanted = server.rows(name)
        held = targets.tables.get(f"shop/{name}")
        rows = [] if held is None else held.table().sort_by("id").to_pylist()
        rows = [row for row in rows if row.get("_is_current", True) and not row.get("_deleted")]
        names = [column.name for column in server.tables[name][0].columns]
        assert [{column: row[column] for column in names} for row in rows] == wanted
