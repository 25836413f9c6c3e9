"""Offsets and starts on a real MySQL log: GTID sets in checkpoints, `startingGtid`, resuming."""

from __future__ import annotations

import base64
import json
import shutil
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_connector.following.entry_marks import KnownFile
from binlog_connector.following.log_end import end_of_log, start_of_log
from binlog_connector.following.offsets import OFFSET_VERSION, STATE_SIZE_MAX, SourceOffset
from binlog_connector.following.resume import compare
from binlog_connector.following.starts import Edge, advance, initial_offset
from binlog_connector.following.watched import WatchedLog
from binlog_connector.options.source_options import SourceOptions
from binlog_format.errors import DataLossError, OptionError, StartError, UnsupportedError
from binlog_format.gtids.gtid import Gtid, GtidPosition
from binlog_format.gtids.gtid_set import GtidSet, parse_gtids
from binlog_format.position import Position
from tests.corpus import SERVER_CASES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


_UINT32 = st.integers(0, 2**32 - 1)
_GTIDS = st.lists(st.builds(Gtid, _UINT32, _UINT32, st.integers(0, 2**64 - 1)), max_size=4).map(GtidPosition.of)
_OFFSETS = st.builds(
    SourceOffset,
    position=st.builds(Position, st.integers(0, 2**63), st.integers(0, 2**40), st.integers(0, 16383)),
    format=st.sampled_from(["", "innodb", "classic", "structured"]),
    fingerprint=st.text(max_size=20),
    gtid=_GTIDS,
    skip_gtid=_GTIDS,
    last_page_crc=st.none() | _UINT32,
    state=st.binary(max_size=40),
    files=st.lists(st.builds(KnownFile, st.integers(0, 2**63), st.none() | st.integers(0, 2**40)), max_size=4).map(
        tuple
    ),
)


@given(_OFFSETS)
def test_offset_comes_back_from_the_checkpoint_as_it_was(offset: SourceOffset) -> None:
    assert SourceOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


@given(_OFFSETS)
def test_equal_offsets_are_equal_text(offset: SourceOffset) -> None:
    """Spark compares the JSON text to see whether there is anything new."""
    again = SourceOffset.from_json(offset.to_json())
    assert json.dumps(again.to_json()) == json.dumps(offset.to_json())


def test_offset_is_flat_json_with_a_version() -> None:
    offset = SourceOffset(
        Position(7, 12, 3),
        format="innodb",
        fingerprint="1000:7",
        gtid=GtidPosition.parse("1-2-7,0-1-100"),
        last_page_crc=5,
    )
    assert offset.to_json() == {
        "version": 1,
        "format": "innodb",
        "fingerprint": "1000:7",
        "file_no": 7,
        "page": 12,
        "chunk": 3,
        "gtid": "0-1-100,1-2-7",
        "last_page_crc": 5,
    }


def test_later_version_is_refused_before_its_fields_are_read() -> None:
    with pytest.raises(
        UnsupportedError, match=f"version {OFFSET_VERSION + 1}, this program reads up to {OFFSET_VERSION}"
    ):
        SourceOffset.from_json({"version": OFFSET_VERSION + 1, "place": "elsewhere"})


@pytest.mark.parametrize(
    "make",
    [
        lambda: "no base64",
        lambda: text_of(b"not packed"),
        lambda: text_of(zlib.compress(b"the rest is missing" * 9)[:-5]),
        lambda: text_of(zlib.compress(b"") + b"more"),
        lambda: text_of(zlib.compress(bytes(STATE_SIZE_MAX + 1))),
    ],
)
def test_state_that_cannot_be_is_refused(make: Callable[[], str]) -> None:
    """The last one, which takes a while to pack, would take as much memory as whoever damaged the checkpoint likes."""
    state = make()
    with pytest.raises(ValueError, match="offset: state: "):
        SourceOffset.from_json({"file_no": 1, "page": 0, "chunk": 0, "state": state})


def text_of(state: bytes) -> str:
    return base64.b64encode(state).decode()


ROTATION = SERVER_CASES / "mysql-9" / "rotation"
OLTP = SERVER_CASES / "mariadb-10.11" / "oltp_small"
OPS = SERVER_CASES / "mysql-9" / "ops"
A = "88ee60ec-e4d9-11f1-baee-02fc00000001"


def again(offset: SourceOffset) -> SourceOffset:
    """*offset* as a checkpoint gives it back."""
    return SourceOffset.from_json(json.loads(json.dumps(offset.to_json())))


@pytest.mark.parametrize("path", [ROTATION, OPS])
def test_micro_batches_count_up_the_set_and_go_on_from_a_checkpoint(path: Path) -> None:
    with WatchedLog(str(path)) as watched:
        offset = initial_offset(watched, Edge.EARLIEST)
        end = initial_offset(watched, Edge.LATEST)
        assert offset.gtid == GtidSet({})
        steps = 0
        while (following := advance(watched, again(offset), size_max=2000).offset) != offset:
            assert following.gtid == watched.log.gtid_position_at(following.position)
            assert again(following) == following
            assert compare(watched, again(following)).loss is None
            offset, steps = following, steps + 1
        assert steps > 8
        assert offset.gtid == end.gtid
        assert str(offset.to_json()["gtid"]).startswith(f"{A}:1-")


def test_start_after_a_set_leaves_out_what_it_covers() -> None:
    with WatchedLog(str(ROTATION)) as watched:
        offset = initial_offset(watched, parse_gtids(f"{A}:1-8"))
        assert (str(offset.gtid), str(offset.skip_gtid)) == (f"{A}:1-8", "")
        offset = initial_offset(watched, parse_gtids(f"{A}:1-3:5:9"))
        assert (str(offset.gtid), str(offset.skip_gtid)) == (f"{A}:1-3", f"{A}:5:9")
        assert again(offset) == offset
        passed = advance(watched, offset, size_max=None).offset
        assert (str(passed.gtid), str(passed.skip_gtid)) == (f"{A}:1-17", "")
        end = initial_offset(watched, parse_gtids(f"{A}:1-17"))
        assert (end.position, str(end.skip_gtid)) == (end_of_log(watched).position, "")


def test_start_that_the_log_does_not_have_is_named(tmp_path: Path) -> None:
    for number in range(4, 10):
        shutil.copy(ROTATION / f"mysql-bin.00000{number}", tmp_path)
    with WatchedLog(str(tmp_path)) as watched:
        assert str(start_of_log(watched).gtid) == f"{A}:1-5"
        with pytest.raises(StartError, match=f"{A}:18-20 has not been logged"):
            initial_offset(watched, parse_gtids(f"{A}:1-20"))
        with pytest.raises(DataLossError, match="GTID_PURGED"):
            initial_offset(watched, parse_gtids(f"{A}:1-4"))
        with pytest.raises(OptionError, match="the log is of a MySQL server"):
            initial_offset(watched, parse_gtids("0-1-5"))


def test_file_purged_before_it_was_read_names_the_missing_sets(tmp_path: Path) -> None:
    for number in range(1, 10):
        shutil.copy(ROTATION / f"mysql-bin.00000{number}", tmp_path)
    with WatchedLog(str(tmp_path)) as watched:
        offset = initial_offset(watched, parse_gtids(f"{A}:1-4"))
        all_of_it = initial_offset(watched, parse_gtids(f"{A}:1-5"))
    for number in (1, 2):
        (tmp_path / f"mysql-bin.00000{number}").unlink()
    with WatchedLog(str(tmp_path)) as watched:
        decision = compare(watched, offset)
        assert decision.loss is not None
        assert f"transactions after GTID {A}:1-4 up to {A}:1-5 are missing" in decision.loss.reason
        assert all_of_it.position.file_no == 4
        assert compare(watched, all_of_it).loss is None


def test_starting_gtid_is_read_as_a_set() -> None:
    options = SourceOptions.parse({"path": str(ROTATION), "startingGtid": f"{A.upper()}:1-3"})
    assert options.start == GtidSet.parse(f"{A}:1-3")
    with pytest.raises(OptionError, match="has no numbers after it"):
        SourceOptions.parse({"path": str(ROTATION), "startingGtid": A})


@pytest.mark.parametrize(("read", "given", "named"), [(OLTP, OPS, "MySQL"), (OPS, OLTP, "MariaDB")])
@pytest.mark.parametrize("edge", [Edge.EARLIEST, Edge.LATEST])
def test_offset_of_the_other_vendors_log_is_named(read: Path, given: Path, named: str, edge: Edge) -> None:
    with WatchedLog(str(read)) as watched:
        first = initial_offset(watched, edge)
        offset = first if first.gtid else advance(watched, first, size_max=2000).offset
    with WatchedLog(str(given)) as watched:
        decision = compare(watched, again(offset))
        assert decision.loss is not None
        assert decision.loss.condition == "BINLOG_DATA_LOSS.FORMAT_CHANGED"
        assert f"this is the log of a {named} server" in str(decision.loss)
        assert "crash" not in str(decision.loss)
        assert decision.offset == start_of_log(watched)
