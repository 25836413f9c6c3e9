"""Compressed logs of real servers hold the same events as plain logs of the same statements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_format import open_log
from binlog_format.events.layout import EventType
from binlog_format.events.query import parse_query
from binlog_format.events.table_map import parse_table_map
from binlog_format.transactions.expansion import expanded
from tests.corpus import corpus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _events(case: Path) -> Iterator[tuple[int, int, bytes]]:
    """Of every plain event: its type, its number in its group, and its bytes."""
    with open_log(str(case)) as log:
        for block in expanded(log.blocks()):
            for event in block.events:
                start = int(event["start"])
                yield (
                    int(event["type"]),
                    int(event["event_no"]),
                    block.data[start : start + int(event["size"])].tobytes(),
                )


def _told(event: tuple[int, int, bytes]) -> tuple[int, int, object]:
    # What the same statement logs, whenever it is run: not times, positions, ids and random values.
    kind, event_no, content = event
    if kind == EventType.TABLE_MAP:
        layout = parse_table_map(content)
        return kind, event_no, (layout.full_name, [column.type for column in layout.columns])
    if kind == EventType.QUERY:
        parsed = parse_query(content)
        return kind, event_no, (parsed.database, parsed.text)
    return kind, event_no, len(content)


@pytest.mark.parametrize(
    ("server", "compressed"),
    [("mariadb-10.11", "ops_compressed"), ("mariadb-11.8", "ops_compressed"), ("mysql-9", "ops_zstd")],
)
def test_compressed_log_has_the_events_of_the_plain_one(server: str, compressed: str) -> None:
    folder = corpus("servers") / server
    if not (folder / compressed).exists():
        pytest.skip(f"{server}/{compressed} is not in this corpus")
    found, expected = ([_told(event) for event in _events(folder / case)] for case in (compressed, "ops"))
    assert len(found) > 700
    assert [(kind, number) for kind, number, _ in found] == [(kind, number) for kind, number, _ in expected]
    different = [(one, other) for one, other in zip(found, expected, strict=True) if one != other]
    # A file name that is in three statements, and a password.
    assert len(different) <= 5


@pytest.mark.parametrize("server", ["mariadb-10.11", "mariadb-11.8", "mysql-9"])
def test_blobs_of_16_mb_come_out_of_16_kb(server: str) -> None:
    folder = corpus("servers") / server / "hugeblob"
    if not folder.exists():
        pytest.skip(f"{server}/hugeblob is not in this corpus")
    sizes = [len(content) for kind, _, content in _events(folder) if kind in (23, 24, 25, 30, 31, 32)]
    assert len(sizes) == 5
    assert sum(size >= 16 << 20 for size in sizes) >= 4
    assert sum(path.stat().st_size for path in folder.glob("mysql-bin.0*")) < 200_000
