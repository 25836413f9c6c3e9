"""The real server's log that comes with the project, and what its tables hold in the end: `find_real_log`."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_lab.demo.proof.expected_rows import ExpectedTable, to_arrow
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_lab.event_encoding.value_encoding import Value

_CASE = Path("tests") / "data" / "servers" / "mariadb-10.11" / "oltp_small"
DATABASE = "sb"


@dataclass(frozen=True, slots=True)
class RealLog:
    """A MariaDB 10.11 log of a sysbench-shaped load on four tables; *directory* holds the classic binlog files."""

    directory: Path

    def expected_tables(self) -> Iterator[ExpectedTable]:
        """The rows that the server's tables had in the end."""
        for path in sorted(self.directory.glob("*.csv.gz")):
            with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
                rows = [_row(fields) for fields in csv.reader(file)][1:]
            spec = table_spec(path.name.removesuffix(".csv.gz"))
            yield ExpectedTable(spec.full_name, spec.primary_key, to_arrow(spec, rows))


def find_real_log() -> RealLog | None:
    """The log in this checkout; None where the package is installed without the repository."""
    directory = Path(__file__).resolve().parents[3] / _CASE
    return RealLog(directory) if directory.is_dir() else None


def table_spec(name: str) -> TableSpec:
    """A table in sysbench's shape."""
    columns = (
        ColumnSpec("id", "int"),
        ColumnSpec("k", "int"),
        ColumnSpec("c", "char(120)", charset="latin1"),
        ColumnSpec("pad", "char(60)", charset="latin1"),
    )
    return TableSpec(DATABASE, name, columns, ("id",))


def _row(fields: list[str]) -> tuple[Value, ...]:
    number, k, c, pad = fields
    return (int(number), int(k), c, pad) if number.isdecimal() else (None, None, c, pad)
