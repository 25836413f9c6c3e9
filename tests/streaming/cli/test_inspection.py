"""`binlog-stream pages`, `verify`, `find` and `map`, and what `files` says of GTIDs and bounds."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from typer.testing import CliRunner

from binlog_format import BinlogError, OptionError, Position, UnsupportedError, open_log
from binlog_format.formats.directories import open_directory
from binlog_format.structured.layout import Severity
from binlog_format.structured.metadata import ClockSync
from binlog_streaming.cli.app import app, register_commands
from binlog_streaming.cli.logs.pages import PageView
from tests.corpus import SERVER_CASES
from tests.format.innodb.inspection.small_logs import PAGE_SIZE, mixed_log, tiny_log
from tests.format.innodb.log_groups import read_groups
from tests.format.innodb.test_corpus_manifests import data_set
from tests.format.structured.logs import entry, event, source

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

OLTP = SERVER_CASES / "mariadb-10.11" / "oltp_small"
PAGE_FIELDS = {
    "file_no",
    "file",
    "page",
    "page_count",
    "page_state",
    "file_offset",
    "chunk",
    "kind",
    "type",
    "begins",
    "ends",
    "length",
    "record",
    "holds",
    "is_wrong",
}


@pytest.fixture(scope="module", autouse=True)
def _commands() -> None:
    register_commands([])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    mixed_log(tmp_path / "log")
    return tmp_path / "log"


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def lines(*arguments: object) -> list[dict[str, object]]:
    return [json.loads(line) for line in run(*arguments, "--output", "jsonl").stdout.splitlines()]


def flip(path: Path, byte: int) -> None:
    content = bytearray(path.read_bytes())
    content[byte] ^= 1
    path.write_bytes(content)


def test_pages_lists_every_byte_once(log: Path) -> None:
    """Chunks of a page stand back to back, and every page is listed."""
    rows = lines("pages", log)
    assert {frozenset(row) for row in rows} == {frozenset(PAGE_FIELDS)}
    for path in sorted(log.glob("*.ibb")):
        of_file = [row for row in rows if row["file"] == path.name]
        counts = {row["page"]: row["page_count"] for row in of_file}
        assert sum(int(str(count)) for count in counts.values()) == path.stat().st_size // PAGE_SIZE
        ends: dict[object, int] = {}
        for row in of_file:
            if row["chunk"] is not None:
                assert isinstance(row["file_offset"], int)
                assert isinstance(row["length"], int)
                assert isinstance(row["page"], int)
                assert row["file_offset"] == ends.get(row["page"], row["page"] * PAGE_SIZE)
                ends[row["page"]] = row["file_offset"] + 3 + row["length"]
    assert {row["kind"] for row in rows} >= {"commit", "oob", "gtid_state", "dummy", "xa_prepare", "xa_complete"}


def test_pages_says_which_record_a_chunk_belongs_to(log: Path) -> None:
    """Positions and GTIDs of commit records are those of the groups."""
    rows = [row for row in lines("pages", log) if row["kind"] == "commit" and row["begins"]]
    found = []
    for row in rows:
        record, holds = row["record"], row["holds"]
        assert isinstance(record, dict)
        assert isinstance(holds, dict)
        found.append(((record["file_no"], record["page"], record["chunk"]), holds["gtid"], holds["oob_records"]))
    with open_log(str(log)) as opened:
        groups = [
            ((g.position.file_no, g.position.page, g.position.chunk), g.gtid, g.oob_records)
            for g in read_groups(opened)
        ]
    assert found == groups
    parts = [row for row in lines("pages", log) if row["kind"] == "oob"]
    begun = [row["record"] for row in parts if row["begins"]]
    assert [row["record"] for row in parts if row["ends"]] == [
        row["record"] for row in parts if row["record"] in begun and row["ends"]
    ]
    assert all(row["record"] in begun for row in parts)


def test_pages_takes_ranges_files_and_pages(log: Path) -> None:
    rows = lines("pages", log)
    assert lines("pages", log, "--file", 3) == [row for row in rows if row["file_no"] == 3]
    one = lines("pages", log, "--file", 3, "--page", 2)
    assert one == [row for row in rows if (row["file_no"], row["page"]) == (3, 2)]
    assert lines("pages", log, "--file", 3, "--page", 0)[0]["page_state"] == "header"
    part = lines("pages", log, "--start", "2:3:1", "--end", "4:1:0")
    keys = [(row["file_no"], row["page"], row["chunk"] or 0) for row in rows]
    assert part == [row for row, key in zip(rows, keys, strict=True) if (2, 3, 1) <= key < (4, 1, 0)]
    behind = [row for row in lines("pages", log, "--start", "0-1-114") if row["kind"] == "commit" and row["begins"]]
    assert isinstance(behind[0]["holds"], dict)
    assert behind[0]["holds"]["gtid"] == "0-1-115"
    assert len(lines("pages", log, "--limit", 5)) == 5


def test_pages_lists_damaged_pages(log: Path) -> None:
    flip(log / "binlog-000001.ibb", 3 * PAGE_SIZE + 50)
    rows = lines("pages", log, "--file", 1)
    assert [row["page"] for row in rows if row["page_state"] == "damaged"] == [3]
    assert all(row["is_wrong"] for row in rows if row["page_state"] == "damaged")
    assert {row["page"] for row in rows if row["chunk"] is not None} >= {2, 4}
    flip(log / "binlog-000001.ibb", 20)
    assert lines("pages", log, "--file", 1)[0]["page_state"] == "damaged"


def test_page_view_shows_all_bytes(log: Path) -> None:
    for page in (0, 1, 2):
        shown = run("pages", log, "--file", 2, "--page", page, "--full").stdout
        content = (log / "binlog-000002.ibb").read_bytes()[page * PAGE_SIZE : (page + 1) * PAGE_SIZE]
        found = bytearray()
        for line in shown.splitlines():
            match = re.match(r"  [0-9a-f]{8}  ((?:[0-9a-f]{2}| |)+?)  .{16}$", line)
            if match is not None:
                found += bytes.fromhex(line[12:61].replace(" ", ""))
        assert bytes(found) == content, page
        assert "\x1b" not in shown
    (log / "binlog-000002.ibb").rename(log.parent / "copy.ibb")
    assert "state interval in pages: 4" in run("pages", log.parent / "copy.ibb", "--page", 0).stdout


def test_header_view_names_the_fields(log: Path) -> None:
    assert "state interval in pages: 4" in run("pages", log, "--file", 2, "--page", 0).stdout


def test_page_view_is_coloured_by_chunk(log: Path) -> None:
    """On a terminal: the chunk header stands out, each kind has its colour."""
    from binlog_format.innodb.inspection.page_rows import page_rows

    directory, only = open_directory(str(log))
    rows = list(page_rows(directory, only, Position(2, 1, 0), Position(2, 2, 0)))
    console = Console(force_terminal=True, color_system="standard", width=120, record=True)
    with console.capture() as capture:
        console.print(PageView(directory, only, rows, 1, is_full=False))
    text = capture.get()
    assert "\x1b[1;7;32m" in text or "\x1b[1;32m" in text  # a GTID state begins the page, in green
    assert "\x1b[34m" in text or "\x1b[33m" in text


def test_pages_table_is_for_people(log: Path) -> None:
    shown = run("pages", log, "--limit", 12).stdout
    assert "gtid_state" in shown
    assert "The first 12 rows" in shown
    assert "The first" not in run("pages", log, "--file", 0, "--page", 0, "--full").stdout


def test_verify_says_that_nothing_is_wrong(log: Path) -> None:
    result = run("verify", log)
    assert result.exit_code == 0
    assert "Nothing is wrong" in result.stdout
    assert run("verify", OLTP).exit_code == 0
    (told,) = lines("verify", OLTP)
    assert (told["severity"], told["condition"], told["complete"]) == ("summary", "ROW_FORMAT", True)
    assert "Complete in row format: yes" in run("verify", OLTP).stdout


def test_verify_says_which_changes_are_in_no_row_event() -> None:
    ops = SERVER_CASES / "mariadb-10.11" / "ops"
    result = run("verify", ops)
    assert result.exit_code == 0  # nothing is damaged
    assert "Complete in row format: no" in result.stdout
    assert "t.audit: 2, the first one: GTID 0-1011-" in result.stdout
    told = lines("verify", ops)[-1]
    assert (told["complete"], told["statements"], told["incidents"], told["problem"]) == (False, 12, 0, None)
    tables = {one["table"]: one for one in told["tables"]}  # type: ignore[attr-defined]
    assert tables["t.audit"]["count"] == 2
    assert set(tables["t.audit"]["first"]) == {"position", "event_no", "gtid", "reason"}


def test_verify_prints_each_finding_with_its_place(log: Path) -> None:
    flip(log / "binlog-000001.ibb", 3 * PAGE_SIZE + 50)
    flip(log / "binlog-000004.ibb", 7 * PAGE_SIZE + 50)
    result = run("verify", log, "--quiet")
    assert result.exit_code == 1
    for file, page in (("binlog-000001.ibb", 3), ("binlog-000004.ibb", 7)):
        expected = f"BINLOG_CORRUPT.PAGE_CHECKSUM  {log}/{file}: page {page}, byte {page * PAGE_SIZE:#x}: page CRC-32C"
        assert [line for line in result.stdout.splitlines() if line.startswith(expected)] != []
    found = [line for line in lines("verify", log) if line["severity"] == "error"]
    assert set(found[0]) == {"severity", "condition", "file", "page", "byte", "reason", "hint"}
    assert (found[0]["file"], found[0]["page"], found[0]["byte"]) == ("binlog-000001.ibb", 3, 3 * PAGE_SIZE)
    assert run("verify", log, "--start", "5:1:0").exit_code == 0
    assert run("verify", log, "--end", "1:3:0").exit_code == 0
    assert run("verify", log, "--end", "2:1:0").exit_code == 1


def test_verify_tells_not_there_yet_from_damage(tmp_path: Path) -> None:
    tiny_log(tmp_path / "log")
    path = tmp_path / "log" / "binlog-000000.ibb"
    for other in ("binlog-000001.ibb", "binlog-000002.ibb"):
        (tmp_path / "log" / other).unlink()
    content = path.read_bytes()
    path.write_bytes(content[: 3 * PAGE_SIZE] + bytes(PAGE_SIZE))
    result = run("verify", tmp_path / "log")
    assert result.exit_code == 0
    assert "NOT_YET" in result.stdout
    assert "Nothing is wrong, 1 remark" in result.stdout
    flip(path, 3 * PAGE_SIZE + 200)
    assert run("verify", tmp_path / "log").exit_code == 1


def test_find_prints_position_file_byte_and_group(log: Path) -> None:
    groups = {str(line["gtid"]): line for line in lines("groups", log)}
    wanted = groups["0-1-115"]
    (found,) = lines("find", log, "--gtid", "0-1-115")
    assert found["position"] == wanted["position"]
    assert {name: found[name] for name in wanted} == wanted
    text = run("find", log, "--gtid", "0-1-115").stdout
    assert isinstance(found["position"], dict)
    assert str(Position(**found["position"])) in text
    assert str(found["file"]) in text
    assert f"{wanted['file_offset']:#x}" in text


def test_find_by_time_takes_iso_and_seconds(log: Path) -> None:
    first = next(line for line in lines("groups", OLTP) if line["gtid"])
    moment = str(first["commit_time"])
    (by_text,) = lines("find", OLTP, "--time", moment)
    assert by_text["gtid"] == first["gtid"]
    (by_zone,) = lines("find", OLTP, "--time", moment.replace("Z", "+00:00"))
    assert by_zone == by_text
    with pytest.raises(BinlogError, match="TIMESTAMP_NOT_FOUND"):
        run("find", OLTP, "--time", "4000000000")
    with pytest.raises(BinlogError, match="GTID_NOT_FOUND"):
        run("find", log, "--gtid", "0-1-99999")
    for wrong in (("--gtid", "x"), ("--time", "noon"), (), ("--gtid", "0-1-1", "--time", "1")):
        with pytest.raises(OptionError):
            run("find", log, *wrong)


def test_files_says_gtid_states_and_bound(log: Path) -> None:
    rows = lines("files", log)
    states = [row for row in lines("pages", log) if row["kind"] == "gtid_state" and row["begins"]]
    for row in rows:
        of_file = [state for state in states if state["file_no"] == row["file_no"]]
        assert isinstance(of_file[0]["holds"], dict)
        assert row["first_gtid_state"] == ",".join(of_file[0]["holds"]["gtids"])
        assert row["last_gtid_state_page"] == of_file[-1]["page"]
    assert [row["bound"] for row in rows] == ["sealed"] * (len(rows) - 2) + ["visible"] * 2
    part = lines("files", log, "--start", "3:1:0", "--end", "5:0:0")
    assert [row["file_no"] for row in part] == [3, 4]
    assert "sealed" in run("files", log).stdout


def test_files_of_a_classic_log_say_gtids_too() -> None:
    from tests.format.classic.logs import case_path

    rows = lines("files", case_path("mariadb-10.11/rotation"))
    assert rows[0]["first_gtid_state"] == ""
    assert [row["last_gtid_state"] for row in rows[:-1]] == [row["first_gtid_state"] for row in rows[1:]]
    assert [row["bound"] for row in rows] == ["sealed"] * (len(rows) - 1) + ["visible"]


def test_groups_takes_gtids() -> None:
    everything = lines("groups", OLTP)
    gtid = str(everything[40]["gtid"])
    assert lines("groups", OLTP, "--start", gtid) == everything[41:]
    assert lines("groups", OLTP, "--end", gtid) == everything[:41]
    place = everything[40]["position"]
    assert isinstance(place, dict)
    position = str(Position(**place))
    assert lines("groups", OLTP, "--end", position) == everything[:40]
    assert lines("groups", OLTP, "--start", position) == everything[40:]


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_map_draws_a_picture(suffix: str, tmp_path: Path) -> None:
    path, _ = data_set("small")
    target = tmp_path / f"map.{suffix}"
    result = run("map", path, "--output", target)
    assert "48 pages, 21 transactions" in result.stdout
    if suffix == "png":
        assert target.read_bytes().startswith(b"\x89PNG")
        return
    texts = "".join(ElementTree.parse(target).getroot().itertext())
    for said in (
        "binlog-000002.ibb",
        "commit records",
        "GTID state",
        "2-3-1",
        "13 other transactions",
        "where it commits",
    ):
        assert said in texts
    first = target.read_bytes()
    run("map", path, "--output", target)
    assert target.read_bytes() == first


def test_map_of_a_damaged_log_shows_the_damage(log: Path, tmp_path: Path) -> None:
    flip(log / "binlog-000001.ibb", 3 * PAGE_SIZE + 50)
    target = tmp_path / "map.svg"
    assert "PAGE_CHECKSUM" in run("map", log, "--output", target).stdout
    assert "damaged" in "".join(ElementTree.parse(target).getroot().itertext())


def test_map_of_a_structured_log_shows_severities_and_damage(tmp_path: Path) -> None:
    sync = ClockSync(10**18, 10**9, 10**18, 0, b"UTC").entry()
    failing = source(2, severity=Severity.ERROR).entry() + event(2, 10**18) * 2000
    damage, cut = entry(b"1234567"), event(2, 10**18)[:-1]
    (tmp_path / "app.blog").write_bytes(sync + failing + damage + event(2, 10**18) * 9 + cut)
    target = tmp_path / "map.svg"
    assert "3 pages, 11 bytes damaged" in run("map", tmp_path / "app.blog", "--output", target).stdout
    texts = list(ElementTree.parse(target).getroot().itertext())
    for label in (
        "app.blog",
        "a cell is a page of 16 KiB",
        "error events  39.2 KiB",
        "damaged  11 bytes",
        "not complete (yet)  19 bytes",
    ):
        assert label in texts
    assert not any("info events" in text for text in texts)


def test_wrong_use_is_named(log: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="INVALID_VALUE"):
        run("map", log, "--output", tmp_path / "map.txt")
    with pytest.raises(OptionError, match="MISSING"):
        run("pages", log, "--page", 3)
    with pytest.raises(OptionError, match="INVALID_VALUE"):
        run("pages", log, "--file", 1, "--start", "1:2:3")
    with pytest.raises(BinlogError, match="POSITION_NOT_FOUND"):
        run("pages", log, "--file", 99)
    for command in (("pages", OLTP), ("map", OLTP, "--output", tmp_path / "map.svg")):
        with pytest.raises(UnsupportedError, match="FORMAT"):
            run(*command)
