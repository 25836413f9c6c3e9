"""Every file of the corpus, entry by entry, against what the library's own reader classes make of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from binlog_format.errors import CorruptError
from binlog_format.source_file import LocalFile
from binlog_format.structured.file_scan import FileEnd, StructuredFileScan
from binlog_format.structured.scan import EntryScanner
from tests.corpus import corpus
from tests.format.structured.model import Event, events_of

if TYPE_CHECKING:
    from pathlib import Path


_DAMAGED = {
    "bad_gap_of_zeros": "a size of 0 bytes",
    "bad_zero_size_entry": "a size of 0 bytes",
    "bad_short_entry_7": "its next field takes 8 bytes, 7 are left",
    "bad_source_entry_cut": "its next field takes 4 bytes, 0 are left",
    "bad_source_string_overrun": "its next field takes 1,000 bytes, 1 are left",
    "bad_text_file": "which has not been defined",
    "bad_unknown_source": "source 77, which has not been defined",
    "big_endian_producer": "none is so large",
    "shared_callsite_c": "source 2, which has not been defined",
}
"""Files that cannot be read to their end; of others whose lines end with an error the arguments are damaged."""


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _bytes(value: str | dict[str, str]) -> bytes:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value.encode()


def _agrees(event: Event, line: dict[str, Any], source: dict[str, Any]) -> bool:
    ours = event.source
    return (event.offset, event.size, event.clock, ours.id, event.writer[0], event.writer[1]) == (
        line["offset"],
        line["size"],
        line["clock"],
        line["source"],
        line["writer"][0],
        _bytes(line["writer"][1]),
    ) and (ours.severity, ours.category, ours.function, ours.file, ours.line, ours.format, ours.argument_tags) == (
        source["severity"],
        *(_bytes(source[name]) for name in ("category", "function", "file")),
        source["line"],
        _bytes(source["format"]),
        _bytes(source["tags"]),
    )


def test_every_entry_of_every_file() -> None:
    folder = corpus("cppbinlog") / "cppbinlog"
    names = sorted(path.stem for path in (folder / "entries").glob("*.jsonl"))
    assert len(names) > 60
    damaged: dict[str, str] = {}
    for name in names:
        lines = _lines(folder / "entries" / f"{name}.jsonl")
        scan = StructuredFileScan(LocalFile(folder / "blog" / f"{name}.blog"), 0, EntryScanner(), block_size=256)
        events: list[Event] = []
        try:
            for block in scan.blocks():
                events += events_of([block])
        except CorruptError as error:
            damaged[name] = error.reason
        sources: dict[int, dict[str, Any]] = {}
        expected = []
        for line in lines:
            if line.get("entry") == "source":
                sources[line["id"]] = line
            elif line.get("entry") == "event":
                expected.append((line, sources[line["source"]]))
        is_argument_damaged = "error_at" in lines[-1] and name not in damaged and scan.ended is FileEnd.END
        assert all(_agrees(event, *pair) for event, pair in zip(events, expected, strict=False)), name
        assert len(events) > len(expected) if is_argument_damaged else len(events) == len(expected), name
    assert damaged.keys() == _DAMAGED.keys()
    assert [name for name, reason in _DAMAGED.items() if reason not in damaged[name]] == []
