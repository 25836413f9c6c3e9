"""Compile every kernel that the demo's job needs: `python -m binlog_lab.demo.kernels`.

Kernels are compiled at their first call and kept in a cache beside their source. This does it once, before the clock
of the demo starts; afterwards it takes a second.
"""

from __future__ import annotations

import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from binlog_connector.schema.statement_rows import find_statement_rows
from binlog_format import open_log
from binlog_format.views.tables import TablesView
from binlog_lab.demo.live_writer import LiveLog, repack_real_log
from binlog_lab.demo.real_log import find_real_log
from binlog_lab.demo.shop import ALTERATIONS
from binlog_lab.demo.workload import Workload
from binlog_streaming.settings import Job, Mode, Sink, Source, TableRule
from binlog_streaming.tables.batch import BatchContext, ComponentWriter

ROWS = 400
BATCHES = 2
_RULE = TableRule(mode=tuple(Mode), target="{mode}/{database}/{table}")


def main() -> int:
    """Write a small log, and keep tables in step with it as the job will, without Spark."""
    with tempfile.TemporaryDirectory(prefix="binlog-stream-") as name:
        directory = Path(name) / "log"
        real = find_real_log()
        if real is not None:
            repack_real_log(real, directory, Path(name) / "truth")
        live = LiveLog(directory, rows_per_s=1e9)
        with live.writer:
            for action in Workload(ROWS, first_gtid=live.next_gtid(), alterations=ALTERATIONS).actions():
                live.write(action)
        _write_tables(str(directory), Sink(directory=str(Path(name) / "tables")))
    return 0


def _write_tables(path: str, sink: Sink) -> None:
    job = Job(source=Source(path=path), sink=sink, tables=(_RULE,), checkpoint="")
    with open_log(path) as log:
        start = log.start_position()
        end = log.span(start).end
        edges = [start, *log.split(start, end, BATCHES), end]
        for number, (low, high) in enumerate(pairwise(edges)):
            view = TablesView(find_statements=find_statement_rows)
            context = BatchContext("kernels", number, job)
            rows = [row for batch in view.batches(log.committed_blocks(low, high)) for row in batch.to_pylist()]
            plan = context.plan(rows)
            for result in ComponentWriter(context.run(plan.end or high), path).write(plan.components):
                if isinstance(result.outcome, Exception):
                    raise result.outcome


if __name__ == "__main__":
    sys.exit(main())
