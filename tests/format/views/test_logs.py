"""View `logs`: against what the library's own reader classes found in the corpus, and rows in the order of time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format.kernels import as_bytes
from binlog_format.structured.scan import EntryScanner
from binlog_format.structured.view import EVENT_FIELDS, chosen, event_columns, sorted_by_time
from tests.chance import examples
from tests.corpus import corpus

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def text_of(value: object) -> object:
    return bytes.fromhex(value["hex"]).decode("utf-8", "replace") if isinstance(value, dict) else value


def expected_rows(path: Path) -> list[dict[str, object]]:
    """Of the events that the library's classes could read."""
    sources: dict[int, dict[str, object]] = {}
    rows = []
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        if entry.get("entry") == "source":
            sources[entry["id"]] = entry
        if entry.get("entry") != "event":
            continue
        source = sources[entry["source"]]
        row = {name: text_of(source[name]) for name in ("category", "function", "file", "format")}
        line_no = source["line"]
        assert isinstance(line_no, int)
        row |= {"severity_no": source["severity"], "line": line_no if line_no < 1 << 63 else None, "ns": entry["ns"]}
        row |= {"writer_id": entry["writer"][0], "writer": text_of(entry["writer"][1]), "source_id": entry["source"]}
        rows.append(row | {"position": divmod(entry["offset"], 1 << 14)})
    return rows


def test_columns_are_what_the_library_reads() -> None:
    folder = corpus("cppbinlog") / "cppbinlog"
    count = 0
    for path in sorted((folder / "blog").glob("*.blog")):
        entries = folder / "entries" / f"{path.stem}.jsonl"
        if not entries.exists():
            continue
        cut = EntryScanner().cut(as_bytes(path.read_bytes()), file_no=5, file_offset=0, path=str(path))
        if cut.block is None:
            continue
        columns = event_columns(chosen(cut.block))
        found = pa.RecordBatch.from_arrays(columns, schema=pa.schema(EVENT_FIELDS)).to_pylist()
        for row, wanted in zip(found, expected_rows(entries), strict=False):
            row["position"] = row["position"]["page"], row["position"]["chunk"]
            row["writer_id"] = int(row["writer_id"])
            assert {name: row[name] for name in wanted} == wanted, path.name
            count += 1
    assert count > 1000


@settings(max_examples=examples(100))
@given(st.lists(st.lists(st.none() | st.integers(0, 60), max_size=8), max_size=12), st.integers(1, 40))
def test_rows_are_sorted_as_far_as_the_window_goes(times: list[list[int | None]], window: int) -> None:
    batches, number = [], 0
    for some in times:
        rows = {"ns": pa.array(some, pa.int64()), "number": pa.array(range(number, number + len(some)), pa.int64())}
        batches.append(pa.RecordBatch.from_pydict(rows))
        number += len(some)
    found = [row for batch in sorted_by_time(batches, window) for row in batch.to_pylist()]
    assert sorted(row["number"] for row in found) == list(range(number))
    known = [ns for some in times for ns in some]
    if None not in known and all(a - b <= window for i, a in enumerate(known) for b in known[i:]):  # type: ignore[operator]
        assert [row["ns"] for row in found] == sorted(known)  # type: ignore[type-var]
    places = {row["number"]: place for place, row in enumerate(found)}
    same = [number for number in range(1, number) if known[number] is None]
    # Without a time a row stays after the one before it.
    assert all(places[one] > places[one - 1] for one in same)


def test_held_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("binlog_format.structured.view.HELD_SIZE_MAX", 64)
    batches = (pa.RecordBatch.from_pydict({"ns": pa.array([n], pa.int64())}) for n in range(100))
    assert len(list(sorted_by_time(batches, 10**9))) > 5
