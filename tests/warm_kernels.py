"""Has the kernels compiled that jobs need at their start, by real work: `python -m tests.warm_kernels`.

The image is built with it, and the tests' cache is filled with it: a kernel is compiled when it is called first.
`python -m tests.warm_kernels CHECKOUT` takes over what has been compiled there, so that a wheel's modules are not
compiled once more.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from binlog_connector.envelope.avro.avro_encoding import AvroEncoding
from binlog_connector.envelope.messages import MessagesView
from binlog_connector.envelope.options import EnvelopeOptions, UnsignedBigintHandling
from binlog_connector.kafka.producer import MESSAGE_SIZE_MAX, Messages
from binlog_connector.kafka.record_batches import record_batches
from binlog_format import open_log
from binlog_format.classic.scan_kernels import check_events
from binlog_format.formats.opening import verify_log
from binlog_format.kernels import empty_bytes
from binlog_format.memory_kernels import gather_from_file
from binlog_format.source_file import with_archive
from binlog_format.views.changes import ChangesView
from binlog_streaming.archive.archiver import Archiver
from binlog_streaming.settings import Mode, Sink, TableFormat, TableRule
from tests.connector.shop import Shop
from tests.corpus import SERVER_CASES
from tests.fuzz.hypothesis_engine import fuzz
from tests.fuzz.message_targets import KnownSchemas
from tests.fuzz.targets import TARGETS
from tests.streaming.tables.batches import cut, write

SEED = 1
TRANSACTIONS = 60
BATCHES = 3
PARTITIONS = 3
LOGS = ("mariadb-10.11/types_full", "mysql-9/types_full", "mysql-9/json_partial")
"""Logs of servers with values of all types of columns."""


def take_over(checkout: Path) -> None:
    """Copy what is compiled of the modules of *checkout* that are here; what is not the same is not used."""
    for root, package in (
        ("format", "binlog_format"),
        ("connector", "binlog_connector"),
        ("streaming", "binlog_streaming"),
    ):
        spec = find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        here, there = Path(spec.origin).parent, checkout / root / package
        for compiled in there.rglob("__pycache__"):
            own = here / compiled.relative_to(there)
            if own.parent.is_dir():
                own.mkdir(exist_ok=True)
                for file in compiled.glob("*.nb[ci]"):
                    shutil.copy(file, own)


def main() -> None:
    """One input for each target of the fuzzer; then values of all types into rows and messages, and a log into tables
    of each format and mode, and into an archive.
    """
    for name in TARGETS:
        fuzz(name, SEED, 1)
    for name in LOGS:
        publish(SERVER_CASES / name)
    with tempfile.TemporaryDirectory() as folder:
        work(Path(folder))


def publish(folder: Path) -> None:
    """What a job does that publishes, without a broker."""
    options = EnvelopeOptions("warm", unsigned_bigint_handling=UnsignedBigintHandling.PRECISE)
    avro = AvroEncoding(options, KnownSchemas(), lambda kind, database, table: f"{kind}.{database}.{table}", "beat")
    with open_log(str(folder)) as log:
        assert all(batch.num_rows for batch in ChangesView().batches(log.committed_blocks()))
        for view in (MessagesView(options), MessagesView(options, encoding=avro)):
            for batch in view.batches(log.committed_blocks()):
                messages = Messages("warm", batch["key"], batch["value"])
                assert list(record_batches(messages, PARTITIONS, MESSAGE_SIZE_MAX, 0))


def work(folder: Path) -> None:
    """What jobs do, without Spark."""
    with Shop(folder / "log", files_of=1 << 16) as shop:
        shop.sell(TRANSACTIONS, rows=3)
    with closing(Archiver(str(folder / "log"), str(folder / "archive"))) as archiver:
        archiver.archive()
    check_events(empty_bytes(64), 64, 4)  # the same of a classic log
    none = np.empty(0, np.int64)
    gather_from_file(0, none, none, empty_bytes(0), none)  # where little of a file is read
    for table_format in (TableFormat.DELTA, TableFormat.ICEBERG):
        sink = Sink(directory=str(folder / table_format), format=table_format)
        rules = [TableRule(mode=tuple(Mode), target="{mode}/{database}/{table}")]
        with open_log(with_archive(str(folder / "log"), str(folder / "archive"))) as log:
            for batch_id, batch in enumerate(cut(log, BATCHES)):
                write(log, batch, sink.directory, batch_id, rules, sink=sink)
    assert not [finding for finding in verify_log(str(folder / "log")) if finding.is_error]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        take_over(Path(sys.argv[1]))
    else:
        main()
