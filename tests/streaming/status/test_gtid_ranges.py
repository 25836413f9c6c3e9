from __future__ import annotations

import pytest

from binlog_format.gtids.gtid_set import parse_gtids
from binlog_streaming.status.recorder import gtid_range

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("", "", ""),
        ("0-1-5", "0-1-5", ""),
        ("0-1-5", "0-1-6", "0-1-6"),
        ("0-1-5", "0-1-9", "0-1-6 to 0-1-9"),
        ("0-1-5,1-2-7", "0-3-9,1-2-7", "0-3-6 to 0-3-9"),
        ("0-1-5", "0-1-9,1-2-7", "0-1-6 to 0-1-9, up to 1-2-7"),
        ("", "0-1-9", "up to 0-1-9"),
        (f"{UUID}:1-77", f"{UUID}:1-80", f"{UUID}:78-80"),
        ("", f"{UUID}:1-80", f"{UUID}:1-80"),
    ],
)
def test_what_a_batch_brought(before: str, after: str, text: str) -> None:
    assert gtid_range(parse_gtids(before), parse_gtids(after)) == text
