"""Kernels give the same without the compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format import Gtid
from binlog_format.events.layout import EventType
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from tests.format.innodb.test_large_groups import event, gtid_event, write_group
from tests.without_compiler import printed_by

if TYPE_CHECKING:
    from pathlib import Path

# Prints a digest of everything that blocks and spans contain.
SCRIPT = """
import hashlib, sys
from binlog_format import open_log
digest = hashlib.sha256()
with open_log(sys.argv[1]) as log:
    for block in log.blocks():
        for table in (block.data, block.groups, block.events, block.extents, log.read_extents(block.extents)):
            digest.update(table.tobytes())
    digest.update(repr(log.span(log.start_position())).encode())
    digest.update(repr(log.files()).encode())
print(digest.hexdigest())
"""


def test_kernels_give_the_same_with_and_without_the_compiler(tmp_path: Path) -> None:
    options = WriterOptions(
        max_binlog_size=131072, state_interval=65536, cache_size=4096, preallocate=False, sync=False
    )
    with BinlogWriter(tmp_path / "log", options) as writer:
        for seqno in range(1, 40):
            events = [event(EventType.QUERY, 19 + 97 * seqno, seqno) for _ in range(1 + seqno % 9)]
            statement = [event(EventType.QUERY, 500)] if seqno % 11 == 0 else None
            write_group(writer, seqno, events, statement)
        writer.begin(1)
        writer.commit(1, Gtid(0, 1, 40), gtid_event(40))
    compiled, plain = printed_by(SCRIPT, tmp_path / "log")
    assert plain == compiled
    assert len(plain.strip()) == 64
