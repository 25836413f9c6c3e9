"""Classic files that benchmarks write are such as servers write."""

from __future__ import annotations

import shutil
import subprocess
from functools import partial
from typing import TYPE_CHECKING

import pytest

from bench.logs.classic_log import FILE_NAME
from bench.logs.datasets import Form, write_log
from bench.logs.sysbench_log import write_groups
from bench.peers import ours
from bench.peers.mariadb_binlog import found_in_text
from binlog_format import open_log
from binlog_format.errors import CorruptError

if TYPE_CHECKING:
    from pathlib import Path

TRANSACTIONS = 300


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("log")
    write_log(directory, Form.CLASSIC, partial(write_groups, transactions=TRANSACTIONS, tables=1, rows_per_table=100))
    return directory / FILE_NAME


def test_both_formats_have_the_same_rows(path: Path, tmp_path: Path) -> None:
    write_log(tmp_path, Form.INNODB, partial(write_groups, transactions=TRANSACTIONS, tables=1, rows_per_table=100))
    found = ours.decode(str(path), full=True)
    assert found == ours.decode(str(tmp_path), full=True)
    assert (found.inserts, found.updates, found.deletes) == (TRANSACTIONS + 100, 2 * TRANSACTIONS, TRANSACTIONS)
    assert found.text_size == 178 * (found.inserts + 2 * found.updates + found.deletes)


def test_decoding_ends_after_the_transactions_that_are_asked_for(path: Path) -> None:
    found = ours.decode(str(path), full=False, end=ours.end_of(str(path), 11))
    # The first group fills the table.
    assert (found.inserts, found.updates, found.deletes, found.byte_sum) == (110, 20, 10, 0)


def test_every_event_has_its_checksum(path: Path, tmp_path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-200] ^= 1
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(CorruptError, match="EVENT_CHECKSUM"), open_log(str(tmp_path)) as log:
        list(log.blocks())


@pytest.mark.skipif(shutil.which("mariadb-binlog") is None, reason="mariadb-binlog is not installed")
@pytest.mark.server
def test_the_server_s_program_reads_the_same_rows(path: Path) -> None:
    assert found_in_text(["mariadb-binlog", "-v", str(path)]) == ours.decode(str(path), full=True)
    assert (
        subprocess.run(["mariadb-binlog", "--verify-binlog-checksum", str(path)], capture_output=True).returncode == 0
    )
