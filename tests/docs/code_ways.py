"""How much code three ways through the program enter, for `docs/map.md`: `python -m tests.docs.code_ways`.

Each way is run once to warm up (imports, compiled kernels), then once under `sys.setprofile`. Functions and files of
our own packages count, kernels do not: they are compiled.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from binlog_connector.envelope.messages import MessagesView
from binlog_connector.envelope.options import EnvelopeOptions
from binlog_format import open_log
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from tests.docs.code_map import PAGE
from tests.docs.markdown import REPO
from tests.streaming.tables.batches import cut, write
from tests.streaming.tables.shop import ShopLog
from tests.tidy.test_tidy import ROOT_PACKAGES

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

BEGIN = "<!-- Made by `python -m tests.docs.code_ways`, which runs each way. -->\n"
END = "<!-- end of ways -->\n"

_COLUMNS = (ColumnSpec("id", "int"), ColumnSpec("name", "varchar(40)"), ColumnSpec("price", "decimal(9,2)"))
TABLES = tuple(TableSpec("shop", f"t{number}", _COLUMNS, ("id",)) for number in range(5))
_OWN = tuple(str(REPO / root / package) for root, package in ROOT_PACKAGES.items())


class Entered(NamedTuple):
    """What a way enters: functions, files they are in, and how deep calls of them go."""

    functions: int
    files: int
    depth: int


class _Trace:
    """Called by the interpreter at each call and return; of one thread."""

    def __init__(self, found: set[CodeType]) -> None:
        self._found = found
        self._depth = 0
        self.depth = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(_OWN) or code.co_filename.endswith("kernels.py"):
            return
        if event == "call":
            self._depth += 1
            self.depth = max(self.depth, self._depth)
            if not code.co_name.startswith("<"):
                self._found.add(code)
        elif event == "return":
            self._depth -= 1


def entered(way: Callable[[], object]) -> Entered:
    """Run *way* and count what it enters, in all of its threads."""
    found: set[CodeType] = set()
    traces = [_Trace(found)]

    def begin(frame: FrameType, event: str, arg: object) -> None:
        traces.append(_Trace(found))
        sys.setprofile(traces[-1])
        traces[-1](frame, event, arg)

    threading.setprofile(begin)
    sys.setprofile(traces[0])
    try:
        way()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    functions = {(code.co_filename, code.co_firstlineno) for code in found}
    return Entered(len(functions), len({file for file, _ in functions}), max(trace.depth for trace in traces))


def write_log(folder: Path) -> None:
    """A log of five tables: in each, rows are inserted, updated and deleted."""
    with ShopLog(folder) as log:
        for spec in TABLES:
            rows = [(number, f"name {number}", Decimal(number)) for number in range(8)]
            log.insert(spec, *rows)
            log.update(spec, (rows[1], (1, "another name", Decimal("7.25"))))
            log.delete(spec, rows[0])


def _to_arrow(log_folder: Path, _: Path) -> None:
    with open_log(str(log_folder)) as log:
        for spec in TABLES:
            for batch in log.changes(table=f"{spec.database}.{spec.table}"):
                assert batch.num_rows


def _to_mirror(log_folder: Path, tables_folder: Path) -> None:
    with open_log(str(log_folder)) as log:
        (batch,) = cut(log, 1)
        assert len(write(log, batch, tables_folder)) == len(TABLES)


def _to_messages(log_folder: Path, _: Path) -> None:
    with open_log(str(log_folder)) as log:
        assert sum(batch.num_rows for batch in MessagesView(EnvelopeOptions("shop")).batches(log.committed_blocks()))


WAYS = {"bytes to Arrow": _to_arrow, "log to mirror": _to_mirror, "log to messages": _to_messages}


def measured(title: str, folder: Path) -> Entered:
    """What the way of that title enters; *folder* is empty."""
    write_log(folder / "log")
    way = WAYS[title]
    way(folder / "log", folder / "warm")
    return entered(lambda: way(folder / "log", folder / "cold"))


def ways_text() -> str:
    """The table of the page."""
    rows = ""
    for title in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            found = measured(title, Path(folder))
        rows += f"| {title} | {found.functions} | {found.files} | {found.depth} |\n"
    return f"| way | functions | files | depth of calls |\n|---|---|---|---|\n{rows}"


if __name__ == "__main__":
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{ways_text()}\n{END}{rest.partition(END)[2]}")
