"""Each MariaDB case once more, written as an `.ibb` log by repack: the same truth through the other container."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from binlog_format import open_log
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.repack.repacker import Repacker
from tests.format.classic.logs import open_classic
from tests.truth.comparison import Comparison
from tests.truth.reading import decoding_of_log, json_changes
from tests.truth.replay import replay, rows_that_differ
from tests.truth.test_final_tables import check_table, final_rows
from tests.truth.truth_case import FINAL_TABLES, HUGE, NAMED, NAMELESS, TORN, case, case_path

if TYPE_CHECKING:
    from pathlib import Path

# Small enough that most transactions go out of band, and groups run over page and file ends.
SMALL = WriterOptions(cache_size=4096, max_binlog_size=256 << 10, state_interval=32 << 10, sync=False)


def of_mariadb(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name.startswith("mariadb")]


def repacked(source: Path, target: Path, options: WriterOptions = SMALL) -> Path:
    """Write the classic log in *source* as an `.ibb` log in *target*."""
    log = open_classic(source)
    with log, Repacker(log, target, options) as repacker:
        repacker.run(threading.Event(), follow=False)
    with open_log(str(target)) as packed:
        assert packed.format_name == "innodb"
    return target


@pytest.mark.parametrize("name", of_mariadb(NAMED))
def test_changes_of_the_repacked_log_are_what_the_server_did(name: str, tmp_path: Path) -> None:
    truth = case(name)
    changes = json_changes(repacked(truth.path, tmp_path / "ibb"))
    assert Comparison(truth).compare(changes, truth.logged()).changes == len(truth.logged())
    assert rows_that_differ(truth, replay(truth, changes), declared=False) == []


@pytest.mark.parametrize("name", NAMELESS)
def test_changes_of_the_repacked_log_without_names(name: str, tmp_path: Path) -> None:
    """The definitions come from the DDL that was repacked with the rows."""
    truth = case(name)
    target = repacked(truth.path, tmp_path / "ibb")
    changes = json_changes(target, decoding=decoding_of_log(target))
    assert Comparison(truth, declared=True).compare(changes, truth.logged()).all_changes == len(truth.logged())
    assert rows_that_differ(truth, replay(truth, changes), declared=True) == []


@pytest.mark.parametrize("name", of_mariadb(TORN))
def test_repacked_log_has_the_used_again_gtid_once(name: str, tmp_path: Path) -> None:
    truth = case(name)
    Comparison(truth).compare(json_changes(repacked(truth.path / "after_recovery", tmp_path / "ibb")), truth.logged())


@pytest.mark.parametrize("name", of_mariadb(HUGE))
def test_repacked_log_has_the_huge_values(name: str, tmp_path: Path) -> None:
    truth = case(name)
    changes = json_changes(repacked(truth.path, tmp_path / "ibb", WriterOptions(sync=False, max_binlog_size=64 << 20)))
    assert Comparison(truth).compare(changes, truth.logged()).changes == 5


@pytest.mark.parametrize("name", of_mariadb(FINAL_TABLES))
def test_repacked_log_gives_the_dumped_tables(name: str, tmp_path: Path) -> None:
    tables = final_rows(json_changes(repacked(case_path(name), tmp_path / "ibb")))
    assert len(tables) == 4
    for table, rows in tables.items():
        check_table(case_path(name), table, rows)
