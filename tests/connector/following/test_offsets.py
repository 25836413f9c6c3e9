from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_connector.following.offsets import OFFSET_VERSION, SourceOffset
from binlog_format.errors import UnsupportedError
from binlog_format.gtids.gtid import Gtid, GtidPosition
from binlog_format.position import Position

_UINT32 = st.integers(0, 2**32 - 1)
_GTIDS = st.lists(st.builds(Gtid, _UINT32, _UINT32, st.integers(0, 2**64 - 1)), max_size=4).map(GtidPosition.of)
_OFFSETS = st.builds(
    SourceOffset,
    position=st.builds(Position, st.integers(0, 2**63), st.integers(0, 2**40), st.integers(0, 16383)),
    format=st.sampled_from(["", "innodb", "classic"]),
    fingerprint=st.text(max_size=20),
    gtid=_GTIDS,
    skip_gtid=_GTIDS,
    last_page_crc=st.none() | _UINT32,
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
