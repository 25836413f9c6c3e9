"""Logs of public bug reports, and what the judge found: every table is equal, or named with the true reason.

`EXPECTED` and `FOUND` have the outcome that is right. Where the job of today has another one, the case is marked with
the number of the finding. The mark is strict; `pytest tests/judge/test_reported.py -k CASE`.
"""

from __future__ import annotations

import re
import shutil
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from binlog_streaming.settings import TableFormat, TableRule
from tests.judge.running import mirror_of, run_once
from tests.judge.tables import differences, read_targets, server_tables

if TYPE_CHECKING:
    from collections.abc import Mapping

DATA = Path(__file__).parents[1] / "data"
ARCHIVE = DATA / "reported" / "reported.tar.xz"
FOUND_ARCHIVE = DATA / "found" / "found.tar.xz"


@dataclass(frozen=True)
class Expected:
    """The right outcome of a case.

    Attributes:
        named: A regular expression that the error's condition and text match; empty: every table is equal.
        rule: Settings of the job's tables.
        left_out: Columns that these settings leave out of targets.
        finding: What is wrong with the outcome of today; empty: nothing.
    """

    named: str = ""
    rule: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    finding: str = ""


EQUAL = Expected()
# What the server computes anew and the log does not have.
GENERATED = r"\[BINLOG_\w+\.\w+\] w\.{table}\b.*\b{column}\b"
STORED = GENERATED.format(table="l", column="total")
DROP = {"generated": "drop"}
EXPECTED: Mapping[str, Expected] = {
    "archive_swap": EQUAL,
    "big_alter": EQUAL,
    "charset_database": EQUAL,
    "collation_keys": EQUAL,
    "column_case_added": EQUAL,
    # Neither an event nor a table map without metadata has a database's character set; of one byte there are many.
    "db_older": Expected(named=r"NO_COLUMN_METADATA\] w\.a\.v: .*character set.* of the database w: its def"),
    "default_changed": EQUAL,
    # Among 80 spellings some have values that the log lacks: TIMESTAMP in the zone SYSTEM, NOW() without it.
    "defaults_each": Expected(named=r"SCHEMA_CHANGED\] w\.d\d\d: column c is new, and the log lacks its values"),
    "dropped_and_renamed": EQUAL,
    "enum_case_only": EQUAL,
    "enum_relabelled": EQUAL,
    "failed_ddl": EQUAL,
    "failed_ddl_nolog": EQUAL,
    "generated_dropped_and_added": EQUAL,
    "generated_dropped_and_added, dropped": Expected(rule=DROP, left_out=("total",)),
    "generated_expression": EQUAL,
    "generated_expression, dropped": Expected(rule=DROP, left_out=("total", "twice")),
    "hash_unique": EQUAL,
    "hash_unique_keyed": EQUAL,
    "hash_unique_nolog": EQUAL,
    "key_types": EQUAL,
    "lc_truncate": EQUAL,
    "m118_stored_full": EQUAL,
    "m118_stored_full, dropped": Expected(rule=DROP, left_out=("total",)),
    "m118_stored_full, null": Expected(rule={"generated": "null"}),
    "minimal_generated": EQUAL,
    "minimal_generated, dropped": Expected(rule=DROP, left_out=("g", "v")),
    "minimal_generated, null": Expected(rule={"generated": "null"}),
    "my_native_foreign_keys": Expected(
        named=r"\[BINLOG_UNSUPPORTED\.FOREIGN_KEY_CASCADE\] .*\bs\.p\b.*\bs\.c\b.*foreign key"
    ),
    "my_sql_foreign_keys": EQUAL,
    "names": EQUAL,
    "names_of_digits": EQUAL,
    "nokey_altered": EQUAL,
    "null_to_not_null": EQUAL,
    "period_overlaps": EQUAL,
    # The server shows a DOUBLE(10,1) rounded, and stores it rounded only if it copies the table, which no log shows.
    "precision_less": Expected(named=r"\[BINLOG_TABLE\.REWRITTEN_BY_SERVER\] w\.p: column b was double\(10,4\)"),
    "promoted_key": EQUAL,
    # The order in which the server numbers existing rows is in no log.
    "renumbered": Expected(named=r"\[BINLOG_\w+\.\w+\] w\.r\b.*\bid\b"),
    "set_statement_ddl": EQUAL,
    "stored_minimal": EQUAL,
    "uuid_converted": EQUAL,
    "view_renamed": EQUAL,
    "width_changed": EQUAL,
    "xa_over_restart": EQUAL,
    "zero_date_key": Expected(named=r"\[BINLOG_\w+\.\w+\] w\.(k|ts)\b.*\b[dt]\b.*(?i:zero date)"),
}
"""By case; what follows a comma tells apart the settings that a case runs with."""
FOUND: Mapping[str, Expected] = {
    "added_again_as_inet": EQUAL,
    "added_or_updated_in_part": EQUAL,
    "altered_and_added": EQUAL,
    "database_replaced": EQUAL,
    "decimal_unsigned": EQUAL,
    "default_in_the_same_statement": EQUAL,
    "dropped_as_a_sequence": EQUAL,
    "empty_is_null": EQUAL,
    "float_default_rounded": Expected(named=r"ROW_IMAGE\] h1\.t: b: missing from inserts"),
    "folded_by_a_rename": EQUAL,
    "folded_without_names": EQUAL,
    # An engine without transactions passes over foreign keys, and no log has `default_storage_engine`.
    "foreign_key_without_engine": Expected(
        named=r"FOREIGN_KEY_CASCADE\] .*h1\.c\b.*names no engine", rule={"foreign_keys": "apply"}
    ),
    "long_key_of_another_engine": EQUAL,
    "null_to_old_default": Expected(named=r"REWRITTEN_BY_SERVER\] h1\.orders\b.*\bTotal\b"),
    "if_exists": EQUAL,
    "key_column_dropped": EQUAL,
    "key_dropped_and_renamed": EQUAL,
    "label_text_in_ascii": Expected(named=r"REWRITTEN_BY_SERVER\] h1\.t\b.*\bc\b"),
    "labels_lacked": Expected(named=r"DDL_NOT_PARSED\] h1\.t\b.*\bcp1251\b"),
    "m102_replaced_in_part": Expected(named=r"ROW_IMAGE\] .*h1\.o: .* REPLACE"),
    "m102_virtual": EQUAL,
    "m102_virtual, dropped": Expected(rule=DROP, left_out=("g", "s")),
    "m118_inet4_to_inet6": EQUAL,
    "merge_union": Expected(named=r"ROWS_NOT_LOGGED\].*h1\.m, h1\.a: a table of the engine MERGE"),
    # MySQL 5.7 writes 1.0 as 1.
    "my57_json_to_text": Expected(named=r"REWRITTEN_BY_SERVER\] h1\.t1: column j was json"),
    # MySQL has the bit of `sql_mode=ORACLE`, and none of its types.
    "my57_oracle_date": EQUAL,
    "my57_timestamp_takes_no_null": Expected(named=r"REWRITTEN_BY_SERVER\] h1\.t: column c\b.*\bNULL\b"),
    "my80_labels_without_charset": EQUAL,
    "my80_years": EQUAL,
    "my_char_padded": Expected(named=r"REWRITTEN_BY_SERVER\] h1\.t: column c\b.*\bPAD_CHAR_TO_FULL_LENGTH\b"),
    "my_enum_to_enum": EQUAL,
    "my_labels_in_ascii": Expected(named=r"REWRITTEN_BY_SERVER\] h1\.t\b.*\bc\b"),
    "my_labels_in_utf16": Expected(named=r"REWRITTEN_BY_SERVER\] h1\.t3\b.*\bTotal\b"),
    "my_replica_virtual": EQUAL,
    "my_replica_virtual_named": EQUAL,
    "my_set_to_decimal": EQUAL,
    "my_swapped_and_altered": EQUAL,
    "my_view_and_no_table": Expected(named=r"STATEMENT_FORMAT\] .*\(h1\.v is a view\).*: UPDATE v SET"),
    "name_of_a_dropped_column": Expected(named=r"REWRITTEN_BY_SERVER\] h1\.t: column g\b.*generated from total"),
    "my57_outer_join": EQUAL,
    "numbered_without_not_null": EQUAL,
    "outer_join": EQUAL,
    "renamed_if_exists": EQUAL,
    "temporary_over_a_table": Expected(named=r"ROWS_NOT_LOGGED\].*h1\.s, h1\.u: it renames h1\.s to h1\.u, but"),
    "numbered_anew": Expected(named=r"\[BINLOG_\w+\.\w+\] h1\.t3\b.*\bid\b"),
    "options_without_commas": Expected(named=r"ROWS_NOT_LOGGED\].*h1\.m, h1\.a: a table of the engine MERGE"),
    "renamed_over_unknown": EQUAL,
    "renamed_to_its_own_name": EQUAL,
    "replica_virtual_inserted": EQUAL,
    "replica_virtual_inserted, dropped": Expected(rule=DROP, left_out=("b", "c")),
    "replica_virtual_updated": EQUAL,
    "replaced_in_part": Expected(named=r"ROW_IMAGE\] .*h1\.t: an update .* REPLACE.*: REPLACE INTO t \(id, a\)"),
    "selected_labels_in_latin1": EQUAL,
    "sequences": EQUAL,
    "servers_own_tables": EQUAL,
    "set_labels_removed": EQUAL,
    # CREATE VIEW IF NOT EXISTS t is in the log whether it made a view or not.
    "table_and_no_view": Expected(named=r"ROWS_NOT_LOGGED\].*h1\.t, h1\.u: h1\.t is a table, or a view"),
    "temporary_and_hidden": EQUAL,
    "text_of_a_column_added_again": EQUAL,
    "time_fraction": EQUAL,
    "timestamp_takes_no_null": Expected(named=r"REWRITTEN_BY_SERVER\] h1\.t: column a\b.*\bNULL\b"),
    "trigger_elsewhere": Expected(named=r"STATEMENT_FORMAT\] .*the trigger h1\.g is on h1\.u"),
    "unlogged_column": Expected(named=r"SCHEMA_CHANGED\] h1\.t: column c is new, .* no statement in the log adds it"),
    "utf8_of_four_bytes": EQUAL,
    "utf8_that_loses_nothing": Expected(named=r"REWRITTEN_BY_SERVER\] h1\.t: column a\b.*\butf8\b"),
    "versioned_parent": Expected(named=r"FOREIGN_KEY_CASCADE\] .* a DELETE from h1\.p may change rows of h1\.c\b"),
    "versioned_parent, followed": Expected(rule={"foreign_keys": "apply"}),
    "versions_dropped": Expected(named=r"ROWS_NOT_LOGGED\] .*h1\.a: DROP SYSTEM VERSIONING removes"),
    "view_gone": EQUAL,
    "zero_dates_to_addresses": EQUAL,
}
"""By case that `make fuzz-servers` found, or a trial by hand."""


def parameters() -> list[object]:
    """Each case in both formats; where the job of today is wrong, that is expected for now."""
    found: list[object] = []
    for name, expected in {**EXPECTED, **FOUND}.items():
        for table_format in (TableFormat.DELTA, TableFormat.ICEBERG):
            marks = [pytest.mark.thorough] if table_format is TableFormat.ICEBERG else []
            if expected.finding:
                marks.append(pytest.mark.xfail(reason=f"finding {expected.finding}", raises=AssertionError))
            found.append(pytest.param(name, expected, table_format, marks=marks, id=f"{name}-{table_format}"))
    return found


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cases")
    for path in (ARCHIVE, FOUND_ARCHIVE):
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
    return folder


def test_every_case_has_an_expected_outcome(cases: Path) -> None:
    names = {name.partition(",")[0] for name in {**EXPECTED, **FOUND}}
    assert names == {path.name for path in cases.glob("*/*") if path.is_dir()}


@pytest.mark.parametrize(("name", "expected", "table_format"), parameters())
def test_tables_are_equal_or_named(
    cases: Path, tmp_path: Path, name: str, expected: Expected, table_format: TableFormat
) -> None:
    (case,) = cases.glob(f"*/{name.partition(',')[0]}")
    unknown = set(expected.rule) - set(TableRule.__struct_fields__)
    assert not unknown, f"there are no such settings: {unknown}"
    shutil.copytree(case, tmp_path / "log")
    job = mirror_of(tmp_path / "log", tmp_path / "lake", rule=expected.rule, table_format=table_format)
    end = run_once(job)
    assert not end.crash, end.crash
    if expected.named:
        assert re.search(expected.named, end.error), end.error
        return
    assert not end.error, end.error
    server = server_tables(case / "final.json")
    assert server
    targets = read_targets(job.sink)
    wrong = differences(server, targets, left_out=expected.left_out)
    assert not wrong, wrong
    if expected.rule == DROP:
        there = {name for target in targets.values() for name in target.content.column_names}
        assert not there & set(expected.left_out)
