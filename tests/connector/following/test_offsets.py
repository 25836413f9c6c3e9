from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_connector.following.entry_marks import KnownFile
from binlog_connector.following.offsets import OFFSET_VERSION, STATE_SIZE_MAX, SourceOffset
from binlog_format.errors import UnsupportedError
from binlog_format.gtids.gtid import Gtid, GtidPosition
from binlog_format.position import Position

if TYPE_CHECKING:
    from collections.abc import Callable

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
