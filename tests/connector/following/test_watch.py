"""Watching a directory."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from binlog_connector.following.watch import DirectoryWatch

if TYPE_CHECKING:
    from pathlib import Path

LONG = 30.0


@pytest.fixture(params=["events", "polling"])
def watch_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the operating system's events, and without any, as on a machine that has run out of them."""
    if request.param == "polling":

        def refuse(*_: object, **__: object) -> None:
            raise OSError(24, "inotify instance limit reached")

        monkeypatch.setattr("binlog_connector.following.watch.Observer.start", refuse)
    return str(request.param)


@pytest.mark.usefixtures("watch_kind")
def test_wait_ends_when_a_file_changes(tmp_path: Path) -> None:
    with DirectoryWatch(tmp_path) as watch:
        (tmp_path / "binlog.000001").write_bytes(b"new")
        assert watch.wait(LONG)
        timer = threading.Timer(0.01, (tmp_path / "binlog.000002").write_bytes, [b"another"])
        timer.start()
        assert watch.wait(LONG)
        timer.join()


@pytest.mark.usefixtures("watch_kind")
def test_growth_is_a_change_and_reading_is_not(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(b"one")
    with DirectoryWatch(tmp_path, poll_interval=0.01) as watch:
        while watch.wait(0.05):  # what was written before it began may still be reported
            continue
        assert path.read_bytes() == b"one"
        assert not watch.wait(0.05)
        with path.open("ab") as file:
            file.write(b"two")
        assert watch.wait(LONG)


@pytest.mark.usefixtures("watch_kind")
def test_rewriting_in_place_is_a_change(tmp_path: Path) -> None:
    """As a page of an `.ibb` file that is written again: the size stays."""
    path = tmp_path / "binlog-000000.ibb"
    path.write_bytes(bytes(100))
    with DirectoryWatch(tmp_path, poll_interval=0.01) as watch:
        while watch.wait(0.05):
            continue
        with path.open("r+b") as file:
            file.write(b"\1")
        assert watch.wait(LONG)


def test_wake_ends_a_wait(tmp_path: Path) -> None:
    with DirectoryWatch(tmp_path) as watch:
        timer = threading.Timer(0.01, watch.wake)
        timer.start()
        assert watch.wait(LONG)
        timer.join()


def test_what_is_forgotten_ends_no_wait(tmp_path: Path) -> None:
    with DirectoryWatch(tmp_path) as watch:
        watch.wake()
        watch.forget()
        assert not watch.wait(0.05)
        watch.wake()
        assert watch.wait(LONG)


def test_url_is_only_waited_for() -> None:
    with DirectoryWatch("s3://bucket/binlogs", poll_interval=0.001) as watch:
        assert watch.wait(LONG)


def test_directory_that_goes_away_is_a_change(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / "binlog.000001").write_bytes(b"x")
    with DirectoryWatch(folder) as watch:
        (folder / "binlog.000001").unlink()
        folder.rmdir()
        assert watch.wait(LONG)
