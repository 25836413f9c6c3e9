"""What other readers of binary logs get wrong, on real bytes: each point of docs/comparison.md.

The numbers are those of the table there. Values are compared with what the server said; those that name a mistake are
also written out here, so that a test reads without the corpus.
"""

from __future__ import annotations

import base64
import random
import shutil
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from binlog_format import BinlogError, CorruptError, SchemaError, open_log
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.repack.repacker import Repacker
from tests.format.classic.logs import open_classic
from tests.truth.comparison import Comparison
from tests.truth.reading import decoding_of_file, decoding_of_log, json_changes, typed_changes
from tests.truth.truth_case import case

if TYPE_CHECKING:
    from pathlib import Path

    from tests.truth.truth_case import Case

MARIADB = "mariadb-10.11/types_full"
MYSQL = "mysql-9/types_full"
BOTH = pytest.mark.parametrize("name", [MARIADB, MYSQL])
COMPRESSED_ROWS = {166, 167, 168}
TRANSACTION_PAYLOAD = 40


def inserted(name: str, table: str, *, declared: bool = False) -> dict[int, dict[str, Any]]:
    """Rows of the table as they were inserted, by id; compared with the server's rows, all changes of the table."""
    truth = case(name)
    decoding = decoding_of_file(truth) if declared else None
    changes = typed_changes(truth.path, table, decoding=decoding)
    Comparison(truth, typed=True, declared=declared).compare(changes, truth.logged(table))
    return {change.after["id"]: change.after for change in changes if change.op == "insert" and change.after}


def stored_types(path: Path) -> Counter[int]:
    """How many events of each type the log has, as they are stored."""
    with open_log(str(path)) as log:
        return Counter(int(code) for block in log.blocks() for code in block.events["type"])


# --- 1 ---------------------------------------------------------------------------------------------------------------


def test_1_compressed_row_events_are_not_lost() -> None:
    """MariaDB's `log_bin_compress`."""
    plain, compressed = case("mariadb-10.11/ops"), case("mariadb-10.11/ops_compressed")
    assert set(stored_types(compressed.path)) > COMPRESSED_ROWS
    changes = json_changes(compressed.path)
    Comparison(compressed).compare(changes, compressed.logged())
    assert len(changes) == len(json_changes(plain.path)) > 1100


def test_1_compressed_transactions_are_not_lost() -> None:
    """MySQL's `binlog_transaction_compression`."""
    plain, compressed = case("mysql-9/ops"), case("mysql-9/ops_zstd")
    assert stored_types(compressed.path)[TRANSACTION_PAYLOAD] > 50
    changes = json_changes(compressed.path)
    Comparison(compressed).compare(changes, compressed.logged())
    assert len(changes) == len(json_changes(plain.path)) > 1000


# --- 2 ---------------------------------------------------------------------------------------------------------------


def test_2_uuid_that_ends_in_zeros_keeps_them_at_its_end() -> None:
    rows = inserted(MARIADB, "t.t_netid", declared=True)
    assert rows[1]["u"] == "123e4567-e89b-12d3-a456-426655440000"
    plain = inserted(MARIADB, "t.t_netid")
    assert plain[1]["u"] == bytes.fromhex("123e4567e89b12d3a456426655440000")
    assert all(len(row["u"]) == 16 for row in plain.values() if row["u"] is not None)


# --- 3 ---------------------------------------------------------------------------------------------------------------


def test_3_ddl_with_inet_columns_stops_nothing() -> None:
    """The statement is read where the schemas come from the log itself; all that follows it is given."""
    truth = case(MARIADB)
    changes = json_changes(truth.path, decoding=decoding_of_log(truth.path))
    Comparison(truth, declared=True).compare(changes, truth.logged())
    made = next(step["step"] for step in truth.steps if "INET6" in step["sql"])
    assert len([change for change in truth.logged() if change.step > made]) > 100
    addresses = [change.after for change in changes if change.table == "t.t_netid" and change.after]
    assert {("::", "0.0.0.0")} < {(row["i6"], row["i4"]) for row in addresses}


def test_3_ddl_with_inet_columns_of_a_table_that_is_not_wanted_stops_nothing() -> None:
    truth = case(MARIADB)
    changes = json_changes(truth.path, tables=r"t\.w300", decoding=decoding_of_log(truth.path))
    Comparison(truth, declared=True).compare(changes, truth.logged("t.w300"))
    assert changes


# --- 4 ---------------------------------------------------------------------------------------------------------------


def test_4_compressed_columns_are_read() -> None:
    rows = inserted(MARIADB, "t.t_compressed")
    sizes = {name: max(len(row[name] or "") for row in rows.values()) for name in rows[1] if name != "id"}
    assert max(sizes.values()) == 70000
    assert any(isinstance(value, bytes) for value in rows[1].values())
    assert any(isinstance(value, str) for value in rows[1].values())


# --- 5 ---------------------------------------------------------------------------------------------------------------


@BOTH
def test_5_integers_have_their_signs(name: str) -> None:
    rows = inserted(name, "t.t_int")
    assert (rows[4]["ti"], rows[4]["si"], rows[4]["mi"], rows[4]["ii"], rows[4]["bi"]) == (-1, -1, -1, -1, -1)
    assert (rows[1]["mi"], rows[1]["bi"]) == (-8388608, -9223372036854775808)
    assert (rows[2]["tu"], rows[2]["su"], rows[2]["mu"], rows[2]["iu"]) == (255, 65535, 16777215, 4294967295)
    assert int(rows[2]["bu"]) == 18446744073709551615
    assert int(rows[3]["bu"]) == 9223372036854775808


def test_5_a_sign_that_the_log_does_not_say_is_never_guessed() -> None:
    truth = case("mariadb-10.11/types_minimal_nolog")
    with pytest.raises(SchemaError, match="NO_COLUMN_METADATA"):
        json_changes(truth.path, tables=r"t\.t_int")
    rows = json_changes(truth.path, tables=r"t\.t_int", decoding=decoding_of_file(truth))
    Comparison(truth, declared=True).compare(rows, truth.logged("t.t_int"))
    assert {18446744073709551615, 4294967295, -1} <= {v for change in rows for v in (change.after or {}).values()}


# --- 6 ---------------------------------------------------------------------------------------------------------------


@BOTH
def test_6_negative_times(name: str) -> None:
    rows = inserted(name, "t.t_time")
    texts = {value for row in rows.values() for key, value in row.items() if key != "id"}
    assert {"-838:59:59", "838:59:59", "-00:00:00.000001"} <= texts


@BOTH
def test_6_zero_timestamp_is_no_moment(name: str) -> None:
    rows = inserted(name, "t.t_timestamp")
    assert {rows[1][f"s{digits}"] for digits in range(7)} == {None}


def test_6_tables_of_the_old_temporal_format() -> None:
    """`mysql56_temporal_format=OFF`: the width of a value is known from the schema alone."""
    truth = case("mariadb-10.11/types_oldtemporal")
    changes = json_changes(truth.path, decoding=decoding_of_log(truth.path))
    assert Comparison(truth, declared=True).compare(changes, truth.logged()).changes == 148
    old = [change for change in changes if change.table == "t.t_time" and change.after]
    assert any(str(value).startswith("-") for change in old for value in (change.after or {}).values())
    assert truth.settings == {"mysql56_temporal_format": "OFF"}


# --- 7 ---------------------------------------------------------------------------------------------------------------


@BOTH
def test_7_texts_of_all_character_sets(name: str) -> None:
    rows = inserted(name, "t.t_varchar").values()
    assert any("漢" in (row["w"] or "") for row in rows)
    assert {row["bincoll"] for row in rows} >= {"ÀÉ"}
    for column in ("w", "w32", "j", "g", "c5"):
        assert any(ord(character) > 127 for row in rows for character in row[column] or ""), column
    assert any("é" in (row["lat"] or "") for row in inserted(name, "t.t_lob").values())


@BOTH
def test_7_binary_columns_keep_their_trailing_zeros(name: str) -> None:
    rows = inserted(name, "t.t_char")
    assert (rows[1]["b1"], rows[1]["b16"], rows[1]["b255"]) == (b"\0", bytes(16), bytes(255))
    in_json = next(c.after for c in json_changes(case(name).path, tables=r"t\.t_char") if c.after)
    assert base64.b64decode(in_json["b16"]) == bytes(16)


@BOTH
def test_7_enum_and_set_are_texts(name: str) -> None:
    rows = inserted(name, "t.t_enumset")
    assert rows[1]["e1"] == "a"
    assert rows[1]["e1l"] == "é"
    assert rows[1]["eu"] == "日本"
    assert rows[1]["s9"] == ",".join(f"s{number:02}" for number in range(9))


# --- 8 ---------------------------------------------------------------------------------------------------------------


def rotation(target: Path, name: str = "mariadb-10.11/rotation") -> tuple[Case, Path]:
    truth = case(name)
    shutil.copytree(truth.path, target)
    return truth, target / "mysql-bin.000007"


@pytest.mark.thorough_where("mariadb")
@pytest.mark.parametrize("name", ["mariadb-10.11/rotation", "mysql-9/rotation"])
def test_8_a_flipped_byte_never_passes_as_a_value(name: str, tmp_path: Path) -> None:
    """Every 41st byte of a file in the middle, one after the other."""
    truth, path = rotation(tmp_path / "log", name)
    Comparison(truth).compare(json_changes(path.parent), truth.logged())
    content = path.read_bytes()
    numbers = random.Random(8)
    conditions: Counter[str] = Counter()
    for place in range(0, len(content), 41):
        damaged = bytearray(content)
        damaged[place] ^= numbers.randrange(1, 256)
        path.write_bytes(damaged)
        with pytest.raises(BinlogError) as raised:
            json_changes(path.parent)
        conditions[raised.value.condition] += 1
        assert path.name in str(raised.value), place
    assert conditions["BINLOG_CORRUPT.EVENT_CHECKSUM"] > 0.8 * conditions.total()


def test_8_a_flipped_byte_of_a_page_never_passes_as_a_value(tmp_path: Path) -> None:
    truth = case("mariadb-10.11/ops")
    target = tmp_path / "ibb"
    log = open_classic(truth.path)
    with log, Repacker(log, target, WriterOptions(sync=False, max_binlog_size=1 << 20)) as repacker:
        repacker.run(threading.Event(), follow=False)
    path = min(target.glob("*.ibb"))
    content = path.read_bytes()
    numbers = random.Random(8)
    for _ in range(12):
        damaged = bytearray(content)
        damaged[numbers.randrange(17000, 90000)] ^= numbers.randrange(1, 256)
        path.write_bytes(damaged)
        with pytest.raises(CorruptError, match="PAGE_CHECKSUM"):
            json_changes(target)


@pytest.mark.parametrize("name", ["mariadb-10.11/rotation", "mysql-9/rotation"])
def test_8_a_truncated_last_event_is_not_there_yet_and_comes_later(name: str, tmp_path: Path) -> None:
    truth = case(name)
    target = tmp_path / "log"
    shutil.copytree(truth.path, target)
    last = max(target.glob("mysql-bin.0*"))
    content = last.read_bytes()
    for cut in range(1, 200, 7):
        last.write_bytes(content[:-cut])
        with open_log(str(target)) as log:
            end = log.end_position()
        before = json_changes(target)
        last.write_bytes(content)
        after = json_changes(target, start=end)
        Comparison(truth).compare([*before, *after], truth.logged())


def test_8_a_truncated_file_in_the_middle_is_an_error(tmp_path: Path) -> None:
    _, path = rotation(tmp_path / "log")
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(BinlogError) as raised:
        json_changes(path.parent)
    assert path.name in str(raised.value)
