"""Orders and their items, of which each transaction changes both: a log of them, a job, and a check of what is read.

Every item has its order, every order has two items, and both tell the same round: in the server at any moment. So a
reader that finds anything else has seen half of a batch.

`python -m tests.streaming.tables.iceberg.order_log FOLDER URI STRIDE` does the job in FOLDER batch by batch, each once
killed with kill -9 at a line of the code that commits, STRIDE lines later from batch to batch, and once more.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.io import load_file_io
from pyiceberg.table import Table

from binlog_format import open_log
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.lake.iceberg import joint_commit
from binlog_streaming.settings import Job, Sink, Source, TableFormat, TableRule
from binlog_streaming.tables import batch
from tests.faults.processes import Killed, in_a_process
from tests.judge.running import LocalTasks
from tests.streaming.replay_runs import run
from tests.streaming.tables.batches import cut, write
from tests.streaming.tables.lake.memory_target import MemoryTargets
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

    from pyiceberg.catalog import Catalog
    from pyiceberg.table.metadata import TableMetadata

ORDERS = TableSpec("shop", "orders", (ColumnSpec("id", "int"), ColumnSpec("round", "int")), primary_key=("id",))
ITEMS = TableSpec(
    "shop",
    "items",
    (ColumnSpec("id", "int"), ColumnSpec("order_id", "int"), ColumnSpec("round", "int")),
    primary_key=("id",),
)
WIDER = replace(ITEMS, columns=(*ITEMS.columns, ColumnSpec("note", "varchar(20)", nullable=True)))
KEPT = 3
"""Rounds after which orders go."""

Rows = set[tuple[int, ...]]


def orders_of(round_no: int) -> list[tuple[int, int]]:
    """New orders of a round."""
    return [(10 * round_no + number, round_no) for number in range(3)]


def expected(last: int) -> tuple[Rows, Rows]:
    """Orders and items after a round."""
    orders: Rows = {
        (key, last) for round_no in range(max(last - KEPT + 1, 0), last + 1) for key, _ in orders_of(round_no)
    }
    return orders, {(2 * order[0] + number, order[0], last) for order in orders for number in range(2)}


def write_log(folder: Path, rounds: int) -> None:
    """A log of so many rounds; in the middle the items get another column."""
    wide_from = rounds // 2
    with ShopLog(folder) as log:
        log.statement("CREATE TABLE orders (id INT PRIMARY KEY, round INT NOT NULL)")
        log.statement(
            "CREATE TABLE items (id INT PRIMARY KEY, order_id INT NOT NULL, round INT NOT NULL,"
            " FOREIGN KEY (order_id) REFERENCES orders (id))"
        )
        for round_no in range(rounds):
            if round_no == wide_from:
                log.statement("ALTER TABLE items ADD COLUMN note VARCHAR(20)")
            is_wide = round_no >= wide_from
            was, now = (((None if round_no == wide_from else "new"),), ("new",)) if is_wide else ((), ())
            before = expected(round_no - 1) if round_no else (set(), set())
            after = expected(round_no)
            items = WIDER if is_wide else ITEMS
            changes: list[tuple[TableSpec, str, list[Any]]] = []
            for spec, old, new, ends in (
                (items, before[1], after[1], (was, now)),
                (ORDERS, before[0], after[0], ((), ())),
            ):
                held, wanted = (
                    {row[0]: (*row, *end) for row in rows} for rows, end in ((old, ends[0]), (new, ends[1]))
                )
                changes += [
                    (spec, "delete", [held[key] for key in sorted(held.keys() - wanted.keys())]),
                    (spec, "update", [(held[key], wanted[key]) for key in sorted(held.keys() & wanted.keys())]),
                    (spec, "insert", [wanted[key] for key in sorted(wanted.keys() - held.keys())]),
                ]
            log.transaction(*changes)


def order_job(folder: Path, catalog: dict[str, str], *, bytes_max: str = "600") -> Job:
    """The job of a log in *folder*, in batches of about two rounds."""
    return Job(
        source=Source(path=str(folder / "log"), max_bytes_per_trigger=bytes_max),
        sink=Sink(directory=str(folder / "tables"), format=TableFormat.ICEBERG, catalog=catalog),
        checkpoint=str(folder / "checkpoint"),
        tables=(TableRule(),),
    )


def rows_of(metadata: TableMetadata | None, width: int) -> Rows:
    """Rows of a table as any other program reads them, without the columns that come later."""
    if metadata is None or metadata.current_snapshot() is None:
        return set()
    table = Table(("shop", "any"), metadata, "", load_file_io(), NO_CATALOG)
    return {tuple(row.values())[:width] for row in table.scan().to_arrow().to_pylist()}


NO_CATALOG: Catalog = None  # type: ignore[assignment] # a table that is only read asks it nothing


def fault_in(orders: Rows, items: Rows) -> str:
    """What is wrong with rows that were read at one moment; empty: nothing."""
    rounds = {row[-1] for row in orders | items}
    if not rounds:
        return ""
    if len(rounds) > 1:
        return f"orders of rounds {sorted({row[-1] for row in orders})}, items of {sorted({row[-1] for row in items})}"
    return "" if (orders, items) == expected(*rounds) else f"round {rounds}: {sorted(orders)}, {sorted(items)}"


class KillAtLine:
    """Ends this process before it begins the line with a number, of those that commit several tables at once."""

    def __init__(self, left: int) -> None:
        self._left = left
        self._files = {joint_commit.__file__}
        self._codes: set[CodeType] = {batch.write_at_once.__code__}

    def __call__(self, frame: FrameType, event: str, argument: object) -> KillAtLine | None:
        if frame.f_code.co_filename not in self._files and frame.f_code not in self._codes:
            return None
        if event == "line":
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return self


def run_batch(job: Job, kill_at: int | None = None) -> int:
    """Do one batch; returns how many it did. *kill_at*: number of the line at which it is killed."""
    if kill_at is not None:
        sys.settrace(KillAtLine(kill_at))
    try:
        return run(job, batches_max=1, tasks=LocalTasks(2))
    except Killed:
        return 1


def main() -> None:
    """Do what the module's text says; prints the number of lines at which a batch was killed."""
    folder, uri, stride = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    job = order_job(folder, {"type": "rest", "uri": uri})
    with open_log(job.source.path) as log:  # what is compiled here is ready in the others
        write(log, cut(log, 1)[0], folder / "none", targets=MemoryTargets())
    for _ in range(2):  # tables are made
        if in_a_process(partial(run_batch, job)) != 0:
            raise SystemExit("at the beginning")
    line = kills = 0
    while True:
        line += stride
        status = in_a_process(partial(run_batch, job, line))
        if status not in (0, -signal.SIGKILL):
            raise SystemExit(f"line {line}: {status}")
        if status == 0:
            break  # a batch has no more lines than that
        kills += 1
        if in_a_process(partial(run_batch, job)) != 0:
            raise SystemExit(f"after line {line}")
    if in_a_process(lambda: run(job, tasks=LocalTasks(2))) != 0:
        raise SystemExit("at the end")
    sys.stdout.write(f"{kills}\n")


if __name__ == "__main__":
    main()
