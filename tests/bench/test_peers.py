"""Decoders are compared by what they found and what that took."""

from __future__ import annotations

import sys

import pytest

from bench.peers.__main__ import Line, _ratios
from bench.peers.found import Found, PeerError, Process, Run, last_pass, median_run, parse_found, run_process
from bench.peers.mariadb_binlog import _found

TEXT = b"""\
# at 1107
### UPDATE `sbtest`.`sbtest1`
### WHERE
###   @1=-5
###   @3='ab'
### SET
###   @1=6
###   @3=''
### INSERT INTO `sbtest`.`sbtest1`
### SET
###   @1=100
###   @3='=b'
### DELETE FROM `sbtest`.`sbtest1`
### WHERE
###   @1=7
"""


def test_rows_are_found_in_text() -> None:
    byte_sum = sum(b"ab=b")
    found = Found(inserts=1, updates=1, deletes=1, int_sum=108, text_size=4, byte_sum=byte_sum)
    assert _found(TEXT.splitlines(keepends=True)) == found
    assert found.changes == 3


def test_last_pass_counts() -> None:
    line = (
        '{{"inserts":1,"updates":2,"deletes":3,"int_sum":4,"text_size":5,"byte_sum":0,"seconds":{0},"cpu_seconds":{0}}}'
    )
    process = Process("\n".join(line.format(seconds) for seconds in (9.0, 2.0)) + "\n", Run(12.0, 12.0))
    assert last_pass(process) == (Found(1, 2, 3, 4, 5, 0), Run(2.0, 2.0))
    with pytest.raises(KeyError):
        parse_found('{"inserts": 1}')


def test_processor_time_of_a_process_is_its_own() -> None:
    busy = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass\nprint('done')"
    process = run_process([sys.executable, "-c", busy])
    assert process.output == "done\n"
    assert 0.2 <= process.run.cpu_seconds <= process.run.seconds * 2
    with pytest.raises(PeerError, match="ended with status 3"):
        run_process([sys.executable, "-c", "raise SystemExit(3)"])


def test_ratios_are_of_the_time_for_a_row_change() -> None:
    lines = [
        Line("ours", "ours", True, 480_000, median_run([Run(1.0, 0.5), Run(3.0, 0.1), Run(2.0, 0.2)])),
        Line("other", "other", False, 40_000, Run(9.0, 1.0)),
    ]
    assert lines[0].run == Run(2.0, 0.2)
    assert _ratios(lines) == {"ours": 1.0, "other": pytest.approx(60.0)}
