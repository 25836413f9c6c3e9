"""How long what a job needs stays: by the times of the server's files, with and without an archive."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from binlog_connector.following.log_end import end_of_log, start_of_log
from binlog_connector.following.watched import WatchedLog
from binlog_connector.metrics.lag import Consumed
from binlog_format.source_file import with_archive
from binlog_streaming.archive.archiver import Archiver
from binlog_streaming.status.model import PurgeRisk, PurgeStatus
from binlog_streaming.status.view import LogMeasure
from tests.connector.shop import Shop

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_connector.following.offsets import SourceOffset

NOW = 1_800_000_000.0
DAY = 86_400.0


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Several files, each of which the server wrote last a day before the next one."""
    with Shop(tmp_path / "log", files_of=1 << 17) as shop:
        shop.sell(1_500)
    files = sorted(shop.directory.glob("*.ibb"))
    assert len(files) >= 4
    for age, file in enumerate(reversed(files)):
        os.utime(file, (NOW - age * DAY, NOW - age * DAY))
    return shop.directory


def edges(log: Path) -> tuple[SourceOffset, SourceOffset]:
    with WatchedLog(str(log)) as watched:
        return start_of_log(watched), end_of_log(watched)


def purge(path: str, offset: SourceOffset, expiry: float | None = 10 * DAY) -> PurgeStatus:
    with closing(LogMeasure(path, None, expiry, clock=lambda: NOW)) as measure:
        return measure.measure(lambda: Consumed(offset)).purge


def test_the_oldest_file_that_is_needed_counts(log: Path) -> None:
    first, last = edges(log)
    files = sorted(log.glob("*.ibb"))
    oldest = purge(str(log), first)
    assert (oldest.risk, oldest.file) == (PurgeRisk.TIMED, files[0].name)
    assert oldest.left_seconds == 10 * DAY - (len(files) - 1) * DAY
    # The file that the server writes is never removed; when it has begun the next one, it was just written.
    newest = purge(str(log), last)
    assert (newest.risk, newest.left_seconds) == (PurgeRisk.TIMED, 10 * DAY)
    assert newest.file == files[last.position.file_no].name


def test_a_file_may_be_due_and_stay(log: Path) -> None:
    """Servers remove files when they begin new ones."""
    due = purge(str(log), edges(log)[0], DAY)
    assert due.risk is PurgeRisk.TIMED
    assert due.left_seconds is not None
    assert due.left_seconds < 0


def test_without_the_expiry_nothing_is_known_but_what_to_do(log: Path) -> None:
    unknown = purge(str(log), edges(log)[0], None)
    assert (unknown.risk, unknown.left_seconds) == (PurgeRisk.UNKNOWN, None)
    assert "purge_after" in unknown.reason


def test_a_file_that_was_removed_is_gone_whatever_the_expiry(log: Path) -> None:
    first, last = edges(log)
    sorted(log.glob("*.ibb"))[0].unlink()
    for expiry in (10 * DAY, None):
        assert purge(str(log), first, expiry).risk is PurgeRisk.GONE
        assert purge(str(log), last, expiry).risk is not PurgeRisk.GONE


def archived(log: Path, place: Path) -> list[str]:
    """Names of files that an archive has as a whole, which is brought up to date."""
    with closing(Archiver(str(log), str(place))) as archiver:
        archiver.archive()
        return [file.name for file in archiver.files if file.is_complete]


def test_an_archive_keeps_what_the_server_removes(log: Path, tmp_path: Path) -> None:
    first, _ = edges(log)
    both = with_archive(str(log), str(tmp_path / "archive"))
    archived(log, tmp_path / "archive")
    assert purge(both, first).risk is PurgeRisk.NONE
    sorted(log.glob("*.ibb"))[0].unlink()
    assert purge(both, first).risk is PurgeRisk.NONE


def test_what_an_archive_does_not_have_as_a_whole_is_at_risk(tmp_path: Path) -> None:
    log, place = tmp_path / "log", tmp_path / "archive"
    with Shop(log, files_of=1 << 17) as shop:
        shop.sell(500)
        complete = archived(log, place)
        shop.sell(1_000)
    files = sorted(file.name for file in log.glob("*.ibb"))
    known = purge(with_archive(str(log), str(place)), edges(log)[0])
    assert 0 < len(complete) < len(files) - 2
    assert (known.risk, known.file) == (PurgeRisk.TIMED, files[len(complete)])
