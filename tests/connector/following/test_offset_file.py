"""The offset of a follower on the disk.

Offsets of Debezium's connectors: files that Connect and Java write, and places in a log of events.
"""

from __future__ import annotations

import gc
import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from binlog_connector.following.debezium_offset import DebeziumOffset, start_after, stored_offset
from binlog_connector.following.offsets import KIND, OffsetFile, SourceOffset, TakenChanges
from binlog_connector.following.watched import WatchedLog
from binlog_connector.options.source_options import SourceOptions
from binlog_format.errors import OptionError, StartError, StorageError, UnsupportedError
from binlog_format.gtids.gtid_set import parse_gtids
from binlog_format.position import Position
from tests.corpus import SERVER_CASES
from tests.faults.processes import Killed

OLD = SourceOffset(Position(3, 7, 2), "innodb", "50000:3", parse_gtids("0-1-17,1-2-4"), last_page_crc=0x12345678)
NEW = SourceOffset(Position(3, 8, 0), "innodb", "50000:3", parse_gtids("0-1-18,1-2-4"), last_page_crc=0x9ABCDEF0)


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    file = OffsetFile(tmp_path / "offset.json")
    assert file.load() is None
    for offset in (
        OLD,
        NEW,
        SourceOffset(Position(0, 1, 0)),
        SourceOffset(Position(1, 0, 4), gtid=parse_gtids("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77")),
    ):
        file.save(offset)
        assert file.load() == offset
    assert [path.name for path in tmp_path.iterdir()] == ["offset.json"]


def test_people_can_read_it(tmp_path: Path) -> None:
    OffsetFile(tmp_path / "offset.json").save(OLD)
    text = (tmp_path / "offset.json").read_text()
    assert text.endswith("}\n")
    assert json.loads(text) == {"kind": KIND, **OLD.to_json()}


class Steps:
    """Counts what `save` asks the operating system for, and ends the process at one of the calls.

    Args:
        last: Calls that are made; the one after them is not.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, last: int) -> None:
        self.count = 0
        self.names: list[str] = []
        self._last = last
        for owner, name in ((Path, "open"), (os, "fsync"), (Path, "replace"), (os, "open"), (os, "close")):
            monkeypatch.setattr(owner, name, self._counted(name, getattr(owner, name)))

    def _counted(self, name: str, call: object) -> object:
        def counted(*arguments: object, **options: object) -> object:
            if self.count == self._last:
                raise Killed
            self.count += 1
            self.names.append(name)
            return call(*arguments, **options)  # type: ignore[operator]

        return counted


def test_killed_at_any_step_the_old_or_the_new_offset_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OffsetFile(tmp_path / "offset.json")
    found: list[SourceOffset | None] = []
    names: list[str] = []
    gc.collect()  # files of other tests that nobody looks at any more would be closed by the calls that are counted
    for last in range(20):
        with monkeypatch.context() as patch:
            file.save(OLD)
            steps = Steps(patch, last)
            try:
                file.save(NEW)
                done = True
            except Killed:
                done = False
            names = steps.names
        found.append(file.load())
        if done:
            break
    assert names == ["open", "fsync", "replace", "open", "fsync", "close"]
    assert len(found) == 7
    assert found == [OLD, OLD, OLD, NEW, NEW, NEW, NEW]


@pytest.mark.parametrize("size", range(0, 60, 7))
def test_half_written_temporary_file_does_no_harm(tmp_path: Path, size: int) -> None:
    file = OffsetFile(tmp_path / "offset.json")
    file.save(OLD)
    data = (tmp_path / "offset.json").read_bytes()
    (tmp_path / ".offset.json.partial").write_bytes(data[:size] + b"x" * 1000)
    assert file.load() == OLD
    file.save(NEW)
    assert file.load() == NEW
    assert [path.name for path in tmp_path.iterdir()] == ["offset.json"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "it is no JSON"),
        (b"\xff\xfe\0", "it is no JSON"),
        (b"[1, 2]", "it is no offset"),
        (b'{"file_no": 1, "page": 2, "chunk": 3}', "it is no offset"),
        (json.dumps({"kind": KIND, "file_no": 1}).encode(), "page: expected a number"),
        (json.dumps({"kind": KIND, **OLD.to_json(), "more": 1}).encode(), "unknown field more"),
        (json.dumps({"kind": KIND, **OLD.to_json(), "gtid": "nonsense"}).encode(), "nonsense"),
        (b" " * (17 << 20), "too large"),
    ],
)
def test_damaged_or_foreign_file_is_named(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "offset.json"
    path.write_bytes(content)
    with pytest.raises(OptionError, match=f"INVALID_VALUE.*offset.json: .*{told}") as raised:
        OffsetFile(path).load()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("size", [1, 30, 100, 150])
def test_cut_file_is_named(tmp_path: Path, size: int) -> None:
    path = tmp_path / "offset.json"
    OffsetFile(path).save(OLD)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(OptionError, match="INVALID_VALUE"):
        OffsetFile(path).load()


def test_offset_of_a_later_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "offset.json"
    path.write_text(json.dumps({"kind": KIND, **OLD.to_json(), "version": 99}))
    with pytest.raises(UnsupportedError, match="VERSION"):
        OffsetFile(path).load()


def test_refused_write_is_named_and_the_old_offset_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError, match=r"NOT_FOUND.*/offset\.json: cannot write it: No such file"):
        OffsetFile(tmp_path / "nowhere" / "offset.json").save(OLD)
    file = OffsetFile(tmp_path / "offset.json")
    file.save(OLD)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"NO_SPACE.*No space left on device"):
        file.save(NEW)
    assert file.load() == OLD
    with pytest.raises(StorageError, match=r"FAILED.*cannot read it: Is a directory"):
        OffsetFile(tmp_path).load()


FIELDS = {"ts_sec": 1, "file": "mariadb-bin.000001", "pos": 258085, "gtids": "0-1-203", "row": 12, "event": 8}
JAVA = (
    b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16`\xd1\x03\x00\x02F\x00\nloadFactorI\x00\t"
    b"thresholdxp?@\x00\x00\x00\x00\x00\x0cw\x08\x00\x00\x00\x10\x00\x00\x00"
)


def java_file(*entries: tuple[object, object]) -> bytes:
    """Bytes of the map, as Kafka Connect's FileOffsetBackingStore writes it."""
    parts = [json.dumps(part).encode() for entry in entries for part in entry]
    heads = [b"ur\x00\x02[B\xac\xf3\x17\xf8\x06\x08T\xe0\x02\x00\x00xp", *[b"uq\x00~\x00\x02"] * len(parts)]
    arrays = [head + struct.pack(">i", len(part)) + part for head, part in zip(heads, parts, strict=False)]
    return JAVA + bytes([len(entries)]) + b"".join(arrays) + b"x"


@pytest.mark.parametrize(
    "content",
    [
        java_file((["shop", {"server": "t"}], FIELDS)),
        json.dumps(
            {"offsets": [{"partition": {"server": "t"}, "offset": {**FIELDS, "transaction_id": None}}]}
        ).encode(),
    ],
)
def test_offsets_are_read(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(content)
    assert stored_offset(path) == ("t", FIELDS)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"offsets": []}', "expected the offset of one connector, got none"),
        (java_file((["a", {"server": "t"}], FIELDS), (["b", {"server": "u"}], FIELDS)), "got t, u"),
        (java_file((["a", {"server": "t"}], FIELDS))[:-200], "not found"),
        (b"\xac\xed\x00\x05sr", "subsection not found"),
        (b"nothing", "Expecting value"),
        (b'{"offsets": [{"partition": {"server": "t"}, "offset": {"lsn": 5}}]}', "expected file and pos, or gtids"),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(content)
    with pytest.raises(OptionError, match=reason) as error:
        stored_offset(path)
    assert error.value.condition == "BINLOG_OPTION.INVALID_VALUE"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"snapshot": "INITIAL"}, "has not finished its first snapshot"),
        ({"incremental_snapshot_collections": '[{"id": "shop.items"}]'}, "incremental snapshot"),
        ({"event": -1}, "event: expected a number"),
        ({"gtids": "none"}, "none"),
    ],
)
def test_offsets_without_a_place_are_refused(more: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        DebeziumOffset.parse(FIELDS | more)


def test_a_finished_snapshot_is_no_obstacle() -> None:
    given = DebeziumOffset.parse(FIELDS | {"snapshot": "INITIAL", "snapshot_completed": True})
    assert (given.event, given.row) == (8, 12)


def test_queries_take_whole_transactions() -> None:
    offset = {"file_no": 1, "page": 0, "chunk": 4, "taken": "3:1"}
    assert SourceOffset.from_json(offset).taken == TakenChanges(3, 1)
    with pytest.raises(OptionError, match="startingOffsets"):
        SourceOptions.parse({"path": "x", "startingOffsets": json.dumps(offset)})


MARIADB = SERVER_CASES / "mariadb-10.11" / "oltp_small"
MYSQL = SERVER_CASES / "mysql-9" / "ops"


def started(path: Path, *, annotations: bool = False, **fields: Any) -> SourceOffset:
    with WatchedLog(str(path)) as watched:
        return start_after(watched, DebeziumOffset.parse(fields), counts_annotations=annotations)


@pytest.mark.parametrize(
    ("path", "pos", "event", "row", "annotations", "start", "taken"),
    [
        # GTID, annotation, table map, update, annotation, table map, update, ...
        (MARIADB, 155238, 2, 1, False, 155238, (3, 1)),
        (MARIADB, 155238, 3, 1, True, 155238, (3, 1)),
        (MARIADB, 155238, 4, 1, False, 155238, (6, 1)),
        (MARIADB, 155238, 2, 0, False, 155238, (4, 0)),  # a heartbeat after all rows of the event
        (MARIADB, 155238, 9, 0, False, 155238, (14, 0)),  # the message that the transaction ended
        (MARIADB, 155238, 0, 0, False, 155238, None),
        # GTID, BEGIN, query, table map, insert, ...: MySQL's connector counts from BEGIN on.
        (MYSQL, 11384, 3, 1, False, 11305, (4, 1)),
        (MYSQL, 11384, 6, 1, False, 11305, (7, 1)),
        (MYSQL, 11384, 13, 0, False, 11305, (15, 0)),
        (MYSQL, 11384, 0, 0, False, 11305, None),
        (MYSQL, 11305, 0, 0, False, 11305, None),
    ],
)
def test_events_are_counted_as_the_connector_does(
    path: Path, pos: int, event: int, row: int, annotations: bool, start: int, taken: tuple[int, int] | None
) -> None:
    found = started(path, annotations=annotations, file="mysql-bin.000001", pos=pos, event=event, row=row)
    assert found.position.page * 16384 + found.position.chunk == start
    assert found.taken == taken
    by_gtids = started(path, annotations=annotations, gtids=str(found.gtid), event=event, row=row)
    both: dict[str, Any] = {"file": "mysql-bin.000001", "pos": pos, "gtids": str(found.gtid)}
    by_both = started(path, annotations=annotations, event=event, row=row, **both)
    assert by_gtids.to_json() == found.to_json() == by_both.to_json()


def test_a_begin_that_was_published_is_not_published_again() -> None:
    place: dict[str, Any] = {"file": "mysql-bin.000001", "pos": 155238}
    before = started(MARIADB, **place)
    gtid = str(before.gtid).rpartition("-")
    transaction = f"{gtid[0]}-{int(gtid[2]) + 1}"
    assert started(MARIADB, **place, transaction_id=transaction).taken == (1, 0)
    assert started(MARIADB, **place, transaction_id=str(before.gtid)).taken is None


@pytest.mark.parametrize(
    ("path", "fields", "condition", "reason"),
    [
        (MARIADB, {"pos": 155238, "gtids": "0-1011-10"}, "CONFLICTING_OPTIONS", "gtids 0-1011-10"),
        (MARIADB, {"pos": 155239}, "POSITION_NOT_FOUND", "no transaction begins there"),
        (MARIADB, {"pos": 99999999}, "POSITION_NOT_FOUND", "the log ends at"),
        (MARIADB, {"file": "mysql-bin.000077", "pos": 4}, "POSITION_NOT_FOUND", "no file of that name"),
        (MARIADB, {"file": "other.000001", "pos": 4}, "POSITION_NOT_FOUND", "no file of that name"),
        (MARIADB, {"pos": 155238, "event": 1, "row": 1}, "POSITION_NOT_FOUND", "has no rows"),
        (MARIADB, {"pos": 155238, "event": 99, "row": 1}, "POSITION_NOT_FOUND", "has no rows"),
        (MYSQL, {"pos": 11500}, "POSITION_NOT_FOUND", "no transaction begins there"),
    ],
)
def test_places_that_are_not_there_are_named(path: Path, fields: dict[str, Any], condition: str, reason: str) -> None:
    with pytest.raises(StartError, match=reason) as error:
        started(path, **({"file": "mysql-bin.000001"} | fields))
    assert error.value.subclass == condition
