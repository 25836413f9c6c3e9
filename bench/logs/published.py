"""Logs of published workloads: `firenibble_log()` changes ten tables by single rows, `taxi_log()` inserts trips.

"Firenibble" (wirekite.io/benchmarks): ten tables of sixteen columns, 2,000,000 inserts, 6,000,000 updates and 2,000,000
deletes, each a transaction of its own. Here they come in random order, spread over tables and keys; rows to begin with
are loaded before, as many as are deleted. OLake's benchmark (olake.io/docs/benchmarks): 50,000,000 inserts of trips.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

from bench.logs.datasets import DATA, FIRST_SECOND, SERVER_ID, Form, kept_log
from bench.logs.flat_rows import FlatTable
from binlog_format.gtids.gtid import Gtid
from binlog_lab.event_encoding.event_encoding import Origin, encode_gtid, encode_xid
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from bench.logs.datasets import GroupWriter, KeptLog
    from bench.logs.flat_rows import Images, Keys

TABLES = 10
INSERTS, UPDATES, DELETES = 2_000_000, 6_000_000, 2_000_000
TRIPS = 10_000_000
"""Of the 50,000,000 of the published run; the rate does not depend on how many there are."""
CHUNK = 20_000
"""Transactions made at once; within them no row is changed twice."""
LOAD_ROWS = 25
"""Of one INSERT of a load; they fit into one row event."""
TRIP_ROWS = 50
_VERSION = 1
"""Counts up when the data below changes."""

_FIRENIBBLE_TYPES = (
    ["bigint"] * 3 + ["int"] + ["double"] * 4 + ["varchar(128)"] * 2 + ["date"] * 3 + ["varchar(128)"] * 3
)
_FIRENIBBLE = tuple(ColumnSpec(f"f{number}", kind) for number, kind in enumerate(_FIRENIBBLE_TYPES))
_TRIP = (
    ColumnSpec("id", "bigint"),
    ColumnSpec("vendor_id", "bigint"),
    ColumnSpec("tpep_pickup_datetime", "timestamp"),
    ColumnSpec("tpep_dropoff_datetime", "timestamp"),
    ColumnSpec("passenger_count", "double"),
    ColumnSpec("trip_distance", "double"),
    ColumnSpec("ratecode_id", "double"),
    ColumnSpec("store_and_fwd_flag", "char(1)"),
    ColumnSpec("pu_location_id", "bigint"),
    ColumnSpec("do_location_id", "bigint"),
    ColumnSpec("payment_type", "bigint"),
    ColumnSpec("fare_amount", "double"),
    ColumnSpec("extra", "double"),
    ColumnSpec("mta_tax", "double"),
    ColumnSpec("tip_amount", "double"),
    ColumnSpec("tolls_amount", "double"),
    ColumnSpec("improvement_surcharge", "double"),
    ColumnSpec("total_amount", "double"),
    ColumnSpec("congestion_surcharge", "double"),
    ColumnSpec("airport_fee", "double"),
)


@dataclass(frozen=True, slots=True)
class PublishedLog:
    """A log, and what its tables hold in the end.

    Attributes:
        expected: Directory with `<database>.<table>.parquet` for each table.
    """

    log: KeptLog
    expected: Path


def firenibble_log(share: float = 1.0) -> PublishedLog:
    """The log of the first workload, or of a *share* of it; written if it is not there."""
    name = f"firenibble-{_VERSION}-{share:g}"
    return _kept(name, partial(write_firenibble, share=share))


def taxi_log(share: float = 1.0) -> PublishedLog:
    """The log of the second workload, or of a *share* of it; written if it is not there."""
    name = f"taxi-{_VERSION}-{TRIPS}-{share:g}"
    return _kept(name, partial(write_taxi, share=share))


def _kept(name: str, write: Callable[[GroupWriter, Path], int]) -> PublishedLog:
    expected = DATA / f"{name}-expected"
    return PublishedLog(kept_log(name, Form.INNODB, lambda writer: write(writer, expected)), expected)


def write_firenibble(writer: GroupWriter, expected: Path, *, share: float = 1.0) -> int:
    """Write the groups of the first workload; how many rows they change.

    Args:
        expected: Where what the tables hold then goes.
    """
    numbers = np.random.default_rng(1)
    counts = [round(share * count) for count in (INSERTS, UPDATES, DELETES)]
    loaded = counts[2] // TABLES // LOAD_ROWS * LOAD_ROWS
    groups = _Groups(writer)
    tables = [_LiveTable(number, loaded) for number in range(1, TABLES + 1)]
    for table in tables:
        groups.write(table.table.insert(table.keys, rows=LOAD_ROWS))
    kinds = numbers.permutation(np.repeat(np.arange(3), counts))
    size = min(CHUNK, TABLES * loaded // 2)
    for first in range(0, len(kinds), size):
        chunk = kinds[first : first + size]
        of_table = numbers.integers(0, TABLES, len(chunk))
        statements: list[bytes] = [b""] * len(chunk)
        for number, table in enumerate(tables):
            places = np.flatnonzero(of_table == number)
            for place, statement in zip(places.tolist(), table.changes(chunk[places], numbers), strict=True):
                statements[place] = statement
        groups.write(statements)
    for table in tables:
        _keep(table.table, table.keys, table.versions[table.keys], expected)
    return len(kinds) + TABLES * loaded


def write_taxi(writer: GroupWriter, expected: Path, *, share: float = 1.0) -> int:
    """Write the groups of the second workload; how many rows they insert. The arguments are as those of the first."""
    table = FlatTable(TableSpec("nyc", "trips", _TRIP, ("id",)), 20)
    count = round(share * TRIPS) // TRIP_ROWS * TRIP_ROWS
    groups = _Groups(writer)
    for first in range(0, count, CHUNK):
        groups.write(table.insert(np.arange(first, min(first + CHUNK, count)), rows=TRIP_ROWS))
    _keep(table, np.arange(count), np.zeros(count, np.int64), expected)
    return count


class _LiveTable:
    # A table while its log is made: keys of the rows that it has, and of every key its version.
    def __init__(self, number: int, rows: int) -> None:
        self.table = FlatTable(TableSpec("bench", f"firenibble{number}", _FIRENIBBLE, ("f0",)), 20 + number)
        self.keys: Keys = np.arange(rows)
        self.versions: Keys = np.zeros(rows, np.int64)

    def changes(self, kinds: Keys, numbers: np.random.Generator) -> Iterable[bytes]:
        """A statement for each of *kinds*: an insert (0), an update (1), or a delete (2) of a row of its own."""
        inserts, updates, deletes = (np.flatnonzero(kinds == kind) for kind in range(3))
        new = np.arange(len(self.versions), len(self.versions) + len(inserts))
        chosen = numbers.permutation(len(self.keys))[: len(updates) + len(deletes)]
        assert len(chosen) == len(updates) + len(deletes), "the table has too few rows for so many changes at once"
        changed, deleted = np.split(self.keys[chosen], [len(updates)])
        made: list[bytes] = [b""] * len(kinds)
        for places, statements in (
            (inserts, self.table.insert(new)),
            (updates, self.table.update(changed, self.versions[changed])),
            (deletes, self.table.delete(deleted, self.versions[deleted])),
        ):
            for place, statement in zip(places.tolist(), statements, strict=True):
                made[place] = statement.tobytes()
        self.versions = np.append(self.versions, np.zeros(len(new), np.int64))
        self.versions[changed] += 1
        self.keys = np.append(np.delete(self.keys, chosen[len(updates) :]), new)
        return made


class _Groups:
    # Numbers the transactions of a log.
    def __init__(self, writer: GroupWriter) -> None:
        self._writer = writer
        self._seqno = 0

    def write(self, statements: Iterable[bytes] | Images) -> None:
        """Write each statement as a transaction."""
        for statement in statements:
            self._seqno += 1
            gtid = Gtid(0, SERVER_ID, self._seqno)
            second = FIRST_SECOND + self._seqno // 10_000
            end = encode_xid(self._seqno, Origin(second, SERVER_ID))
            self._writer.write_group(gtid, encode_gtid(gtid, second), [bytes(statement), end])


def _keep(table: FlatTable, keys: Keys, versions: Keys, expected: Path) -> None:
    expected.mkdir(parents=True, exist_ok=True)
    order = np.argsort(keys)
    pq.write_table(table.rows(keys[order], versions[order]), expected / f"{table.spec.full_name}.parquet")
