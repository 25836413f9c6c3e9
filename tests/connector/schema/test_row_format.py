"""What logs of real servers do not tell row by row, and what is reported of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.log_ddl import DdlStatement, ServerRuns, all_statements
from binlog_connector.schema.row_format import RowFormat, Tally, only_rows
from binlog_connector.schema.statement_rows import find_statement_rows
from binlog_connector.schema.statement_scope import StatementScope
from binlog_format import open_log
from binlog_format.errors import BinlogError
from binlog_format.events.layout import EVENT_HEADER_STRUCT, EventType
from binlog_format.gtids.gtid import GtidPosition
from binlog_format.views.filters import ALL_GROUPS, GroupFilter, TableFilter
from binlog_format.views.tables import TablesView
from tests.connector.schema.layouts import block_of, query
from tests.corpus import SERVER_CASES
from tests.format.classic.logs import file_of, raw_events, with_checksum

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_format.block import Block

CASES = [path.parent for path in sorted(SERVER_CASES.glob("*/*/mysql-bin.index")) if path.parent.name != "encrypted"]
OPS = SERVER_CASES / "mariadb-10.11" / "ops"
OF_OPS = {"t.audit": 2, "t.many": 8}
OF_MARIADB_OPS = OF_OPS | {"t.sv3": 2}


def tally_of(path: Path, tables: str | None = None, groups: GroupFilter = ALL_GROUPS) -> Tally:
    tally, row_format = Tally(), RowFormat(TableFilter(tables))
    with open_log(str(path)) as log:
        for block in log.committed_blocks():
            for lacking in row_format.lacking(block, groups, ServerRuns(log)):
                tally.take(lacking)
    return tally


def incident(message: bytes) -> bytes:
    body = b"\x01\x00" + bytes([len(message)]) + message
    return EVENT_HEADER_STRUCT.pack(17, EventType.INCIDENT, 3, EVENT_HEADER_STRUCT.size + len(body), 0, 0) + body


def typed(block: Block) -> Block:
    """*block*, whose events state their types themselves."""
    block.events["type"] = block.data[block.events["start"] + 4]
    return block


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_logs_in_row_format_lack_nothing(case: Path) -> None:
    """The cases `ops` have statements on purpose, all others none."""
    tally = tally_of(case)
    counted = {str(name): count.number for (name, _), count in tally.counts.items()}
    if case.name.startswith("ops"):
        assert counted == (OF_OPS if case.parent.name.startswith("mysql") else OF_MARIADB_OPS)
    else:
        assert tally.is_complete


def test_only_wanted_tables_and_groups_count() -> None:
    assert set(tally_of(OPS, "t[.]audit").counts) == {(TableName("t", "audit"), "BINLOG_UNSUPPORTED.STATEMENT_FORMAT")}
    first = tally_of(OPS, "t[.]audit").counts[TableName("t", "audit"), "BINLOG_UNSUPPORTED.STATEMENT_FORMAT"].first
    assert first.statement.text == "INSERT INTO audit (what) VALUES ('stmt auto inc')"
    assert first.statement.gtid is not None
    with open_log(str(OPS)) as log:
        after = GroupFilter(skip=log.position_of(GtidPosition.parse(first.statement.gtid)).taken)
    assert tally_of(OPS, "t[.]audit", after).statements == 1
    assert tally_of(OPS, "t[.]nothing").is_complete


def test_reading_ends_before_the_block_with_the_statement() -> None:
    with open_log(str(OPS)) as log:
        runs = ServerRuns(log)
        blocks = only_rows(log.committed_blocks(), RowFormat(TableFilter("t[.]audit")), ALL_GROUPS, runs)
        with pytest.raises(
            BinlogError,
            match=r"STATEMENT_FORMAT.*GTID 0-1011-.*t\.audit.*VALUES \(\?\).*format=ROW",
        ):
            list(blocks)
        assert list(only_rows(log.committed_blocks(), RowFormat(TableFilter("t[.]x")), ALL_GROUPS, runs))


def test_load_data_is_read_with_its_session() -> None:
    with open_log(str(OPS)) as log:
        found = [one for block in log.committed_blocks() for _, _, one in all_statements(block)]
    assert {one.server_version for one in found} == {101119}
    (load,) = [one for one in found if one.event_type == EventType.EXECUTE_LOAD_QUERY]
    assert load.text.startswith("LOAD DATA")
    assert (load.database, load.server_id) == ("t", 1011)
    assert load.thread_id


def test_incident_is_named_whatever_is_wanted() -> None:
    block = typed(block_of(query("INSERT INTO t VALUES (1)"), incident(b"lost")))
    (lacking,) = RowFormat(TableFilter("none[.]none")).lacking(block)
    assert str(lacking.error()).startswith("[BINLOG_DATA_LOSS.LOST_EVENTS] ")
    assert "lost" in lacking.error().reason
    (row,) = [row for _, row in find_statement_rows(block) if row["event_type"] == EventType.INCIDENT]
    assert DdlStatement.from_row(row).text == "lost"


def test_incident_between_the_groups_of_a_file_is_named(tmp_path: Path) -> None:
    content = (SERVER_CASES / "mariadb-10.11" / "rotation" / "mysql-bin.000001").read_bytes()
    events = raw_events(content)
    at = next(number for number, event in enumerate(events) if event[4] == EventType.MARIADB_GTID)
    events.insert(at, with_checksum(incident(b"error writing to the binary log")))
    (tmp_path / "mysql-bin.000001").write_bytes(file_of(events))
    (count,) = tally_of(tmp_path).counts.values()
    assert count.first.error().condition == "BINLOG_DATA_LOSS.LOST_EVENTS"
    assert "error writing to the binary log" in count.first.error().reason


def test_names_are_found_however_their_letters_are() -> None:
    """A server with lower_case_table_names=1 logs rows under small letters, and statements as they were written."""
    block = block_of(query("INSERT INTO Shop.Orders VALUES (1)"))
    assert len(list(RowFormat(TableFilter("shop[.]orders")).lacking(block))) == 1
    assert len(list(RowFormat(TableFilter("Shop[.]Orders")).lacking(block))) == 1
    assert list(RowFormat(TableFilter("shop[.]order")).lacking(block)) == []


def test_what_stands_before_a_part_counts_from_its_first_statement_about_rows_on() -> None:
    asked = []

    def before() -> StatementScope:
        asked.append(1)
        scope = StatementScope()
        for _, _, one in all_statements(block_of(query("CREATE TEMPORARY TABLE t (a INT)"))):
            scope.observe(one)
        return scope

    row_format = RowFormat(TableFilter(), scope_before=before)
    assert list(row_format.lacking(block_of(query("CREATE TABLE u (a INT)")))) == []
    assert not asked
    found = list(row_format.lacking(block_of(query("INSERT INTO t VALUES (1)"), query("INSERT INTO u VALUES (1)"))))
    assert [one.names for one in found] == [(TableName("shop", "u"),)]
    assert len(asked) == 1


def test_view_gives_a_statement_once_for_each_session_and_meaning() -> None:
    insert, other = query("INSERT INTO t VALUES (1)"), query("INSERT INTO t VALUES (2), (3)")
    longer = query("INSERT INTO t VALUES ('" + "x" * 1000 + "')")
    again = bytearray(insert)
    again[19:23] = (77).to_bytes(4, "little")  # of another session
    temporary = query("CREATE TEMPORARY TABLE t (a INT)")
    block = block_of(insert, other, bytes(again), longer, temporary, insert, insert)
    (batch,) = TablesView(find_statements=find_statement_rows).batches([block])
    found = [DdlStatement.from_row(one) for one in batch.to_pylist()[0]["ddl"]]
    assert [one.position.chunk for one in found] == [100, 300, 500, 600]
    assert found[0].rows is not None
    assert found[0].rows.names == (TableName("shop", "t"),)
    assert [found[1].thread_id, found[2].rows] == [77, None]


def test_view_gives_the_beginning_of_a_long_statement() -> None:
    (batch,) = TablesView(find_statements=find_statement_rows).batches(
        [block_of(query("INSERT INTO t VALUES ('" + "x" * 5000 + "')"))]
    )
    (row,) = batch.to_pylist()[0]["ddl"]
    assert len(row["text"]) == 201
    assert StatementScope().observe(DdlStatement.from_row(row)) is not None


def test_number_of_the_run_of_the_server() -> None:
    with open_log(str(SERVER_CASES / "mariadb-10.11" / "rotation")) as log:
        runs = ServerRuns(log)
        numbers = {file.file_no: runs.of(file.file_no) for file in log.files()}
        started = [file.file_no for file in log.files() if file.header.get("created")]
    assert numbers == {number: max(one for one in started if one <= number) for number in numbers}
    assert len(set(numbers.values())) < len(numbers)
