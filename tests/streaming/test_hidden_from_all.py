"""Tables of snapshots, passwords and statements about what is not selected: looked for in every way out of a log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from binlog_connector.envelope.messages import MessagesView
from binlog_connector.envelope.options import EnvelopeFormat, EnvelopeOptions, MessageOperation
from binlog_connector.kafka.registry import RegistryConnection, SchemaRegistry
from binlog_connector.options.query_views import make_view
from binlog_connector.options.source_options import SourceOptions
from binlog_connector.rules.row_rules import read_rules
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.history_file import save_history
from binlog_connector.schema.log_ddl import DdlStatement
from binlog_connector.schema.parsing.ddl import parse_ddl
from binlog_connector.schema.parsing.session import StatementSession
from binlog_connector.schema.statement_rows import shown
from binlog_format import open_log
from binlog_format.errors import SchemaError
from binlog_format.events.query import contains_password, is_account_statement
from binlog_format.position import Position
from binlog_format.rows.decoding import Decoding
from binlog_format.views.filters import TableFilter
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.cli.logs.changes import changes
from binlog_streaming.cli.logs.events import events
from binlog_streaming.cli.logs.tail import tail
from binlog_streaming.settings import PublishJob, parse_any_job
from tests.connector.envelope.test_avro_messages import avro_encoding
from tests.faults.schema_registry import SchemaRegistryServer
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.snapshots.snapshot_log import ShopSnapshot
from tests.streaming.topics.publishing import messages_made

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "LEAK7731"
PEOPLE = TableSpec("shop", "people", (ColumnSpec("id", "int"), ColumnSpec("email", "varchar(60)")), ("id",))
DECLARED = "LEAK8842"
"""What statements say about columns that rules hide; the job's own definitions have it, and no message."""
HIDING = """
[[tables]]
select = "shop[.]people"
drop_columns = ["note"]
mask = { email = "null", phone = "sha256", street = "text ***" }
salt_variable = "SALT"
where = "id < 100"
"""
_HIDDEN_COLUMNS = ("email", "phone", "street", "note")
PERSON = TableSpec(
    "shop",
    "people",
    (ColumnSpec("id", "int"), *(ColumnSpec(name, "varchar(60)") for name in _HIDDEN_COLUMNS)),
    ("id",),
)
_DECLARATION = f"VARCHAR(60) NOT NULL DEFAULT '{DECLARED}' COMMENT '{DECLARED}'"
PERSON_DDL = (
    f"CREATE TABLE people (id INT PRIMARY KEY, {', '.join(f'{name} {_DECLARATION}' for name in _HIDDEN_COLUMNS)})"
)
HIDDEN = TableSpec("hidden", "notes", (ColumnSpec("id", "int"), ColumnSpec("note", "varchar(60)")), ("id",))
RULES = '[{"select": "shop[.]people", "mask": {"email": "null"}}]'
ACCOUNTS = (
    f"CREATE USER u IDENTIFIED BY '{SECRET}'",
    f"/*!50706 CREATE USER u2 IDENTIFIED BY '{SECRET}' */",
    f"CREATE /*M! OR REPLACE */ USER u IDENTIFIED BY '{SECRET}'",
    f"ALTER USER IF EXISTS u IDENTIFIED VIA mysql_native_password USING PASSWORD('{SECRET}')",
    f"SET PASSWORD FOR u = PASSWORD('{SECRET}')",
    f"-- rights\nGRANT SELECT ON shop.people TO u IDENTIFIED BY '{SECRET}'",
    f"SET STATEMENT max_statement_time = 10 FOR CREATE USER u3 IDENTIFIED BY '{SECRET}'",
    f"CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'h', PASSWORD '{SECRET}')",
    f"CREATE USER u IDENTIFIED BY '{SECRET}",  # nobody understands it
)
ROUTINES = (
    f"CREATE DEFINER=`root`@`localhost` PROCEDURE shop.p() SET PASSWORD = '{SECRET}'",
    f"CREATE OR REPLACE DEFINER = 'a b'@'%' EVENT e ON SCHEDULE EVERY 1 DAY DO CREATE USER v IDENTIFIED BY '{SECRET}'",
)
BODIES = (
    f"CREATE PROCEDURE shop.q() SELECT '{SECRET}'",
    f"CREATE TRIGGER shop.t BEFORE INSERT ON shop.people FOR EACH ROW SET @a = '{SECRET}'",
    f"CREATE EVENT shop.f ON SCHEDULE EVERY 1 DAY DO DELETE FROM shop.people WHERE email = '{SECRET}'",
    f"CREATE FUNCTION shop.g() RETURNS INT RETURN LENGTH('{SECRET}')",
)
OF_OTHERS = (
    "CREATE DATABASE hidden",
    f"CREATE TABLE hidden.notes (id INT PRIMARY KEY, note TEXT DEFAULT '{SECRET}')",
    f"CREATE TEMPORARY TABLE hidden.scratch AS SELECT '{SECRET}' AS s",
    f"ALTER TABLE hidden.notes ADD COLUMN more VARCHAR(20) NOT UNDERSTOOD '{SECRET}'",
    "DROP DATABASE hidden",
)


def record(directory: Path, *statements: str) -> str:
    """A log in which the secret is in a snapshot's rows and marks, and in *statements*."""
    with ShopLog(directory) as log:
        log.statement("CREATE DATABASE shop", database="")
        log.statement("CREATE DATABASE IF NOT EXISTS `binlog_stream` CHARACTER SET utf8mb4", database="")
        log.statement(PEOPLE.create_statement())
        log.insert(PEOPLE, (7, "seven"))
        snapshot = ShopSnapshot(log, PEOPLE)
        snapshot.begin()
        snapshot.chunk([(1, f"{SECRET}-1"), (2, f"{SECRET}-2")])
        log.statement(f"INSERT INTO `binlog_stream`.`{snapshot.shadow.table}` SELECT * FROM p WHERE id > '{SECRET}'")
        snapshot.end()
        log.statement(f"DROP TABLE `binlog_stream`.`{snapshot.shadow.table}`", database="")
        for statement in statements:
            log.statement(statement)
    return str(directory)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    return record(tmp_path_factory.mktemp("log") / "log", *ACCOUNTS, *ROUTINES)


def command(*arguments: str) -> str:
    app = typer.Typer()
    for function in (changes, events, tail):
        app.command()(function)
    result = CliRunner().invoke(app, arguments)
    if result.exception is not None:
        raise result.exception
    return result.output


def messages(log: str, options: EnvelopeOptions, tables: TableFilter | None = None, rules: str | None = None) -> str:
    decoding = Decoding(SchemaHistory(), rules=None if rules is None else read_rules(rules, needs_key=True))
    with open_log(log) as opened:
        view = MessagesView(options, tables=tables, decoding=decoding)
        return str([row for batch in view.batches(opened.committed_blocks()) for row in batch.to_pylist()])


def spark_rows(log: str, **options: str) -> str:
    wanted = SourceOptions.parse({"path": log, **options})
    with open_log(log) as opened:
        return str([row for batch in make_view(wanted).batches(opened.committed_blocks()) for row in batch.to_pylist()])


def check(told: str, *, expected: str = "seven") -> None:
    assert expected in told
    assert SECRET not in told
    assert "binlog_stream" not in told
    assert "snapshot_marks" not in told


@pytest.mark.parametrize("rules", [None, RULES])
@pytest.mark.parametrize("select", [None, ".*", r"(shop|binlog_stream)\..*"])
@pytest.mark.parametrize("envelope", EnvelopeFormat)
def test_not_in_messages(log: str, envelope: EnvelopeFormat, select: str | None, rules: str | None) -> None:
    if rules is None:
        options = EnvelopeOptions(
            "t", envelope, schemas=True, transaction_metadata=True, schema_changes=True, query=True
        )
    else:
        options = EnvelopeOptions("t", envelope, schemas=True, transaction_metadata=True, schema_changes=True)
    check(messages(log, options, TableFilter(select), rules), expected="seven" if rules is None else '"id":7')


def test_not_in_messages_of_avro(log: str) -> None:
    options = EnvelopeOptions("t", transaction_metadata=True, schema_changes=True, query=True)
    with SchemaRegistryServer() as server, open_log(log) as opened:
        view = MessagesView(options, encoding=avro_encoding(server, options))
        rows = [row for batch in view.batches(opened.committed_blocks()) for row in batch.to_pylist()]
        schemas = [str(version) for subject in server.subjects() for version in server.versions(subject)]
    check(str(rows) + str(schemas))


def _private_log(directory: Path) -> None:
    """Secrets in masked, dropped and filtered values, in hidden tables, and in statements of all kinds."""
    with ShopLog(directory) as log:
        for statement in ("CREATE DATABASE shop", *OF_OTHERS[:2]):
            log.statement(statement, database="")
        log.statement(PERSON_DDL)
        log.insert(PERSON, (7, SECRET, SECRET, SECRET, SECRET), (200, SECRET, SECRET, SECRET, SECRET))
        log.update(PERSON, ((7, SECRET, SECRET, SECRET, SECRET), (8, SECRET, SECRET, "seven", SECRET)))
        log.delete(PERSON, (8, SECRET, SECRET, SECRET, SECRET))
        log.insert(HIDDEN, (1, SECRET))
        for statement in (*ACCOUNTS, *ROUTINES, *BODIES, *OF_OTHERS[2:]):
            log.statement(statement)
        log.statement("TRUNCATE people")
        log.statement(f"ALTER TABLE people MODIFY note VARCHAR(61) NOT NULL DEFAULT '{DECLARED}'")


@pytest.mark.parametrize("form", ["", "schemas_enable = true", 'envelope = "flat"', 'format = "avro"'])
def test_nothing_private_leaves_a_job(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Keys, values, headers and topics, those about statements and transactions too; files of the job; what it logs."""
    monkeypatch.setenv("SALT", "salt")
    caplog.set_level("DEBUG")
    _private_log(tmp_path / "log")
    with SchemaRegistryServer() as server:
        registry = SchemaRegistry(RegistryConnection(server.url)) if "avro" in form else None
        section = f'[sink.registry]\nurl = "{server.url}"\n' if registry else ""
        text = (
            'checkpoint = "state"\n[source]\npath = "log"\ndeclaredTypes = true\n[sink]\nkind = "kafka"\n'
            'bootstrap_servers = "127.0.0.1:1"\ntopic_prefix = "t"\nskipped_operations = []\n'
            f"transaction_metadata = true\nschema_changes = true\n{form}\n{section}{HIDING}"
        )
        job = parse_any_job(text, file=tmp_path / "job.toml")
        assert isinstance(job, PublishJob)
        made = str(list(messages_made(job, registry)))
        made += "".join(str(version) for subject in server.subjects() for version in server.versions(subject))
    kept = "".join(path.read_text() for path in (tmp_path / "state").rglob("*") if path.is_file())
    check(made + kept + caplog.text, expected="***")
    assert DECLARED not in made + caplog.text
    assert "hidden" not in made


@pytest.mark.parametrize("rules", [(), ("--rules", RULES)])
@pytest.mark.parametrize("output", ["table", "jsonl", "debezium", "flat"])
def test_not_in_changes(log: str, output: str, rules: tuple[str, ...]) -> None:
    check(command("changes", log, "--output", output, *rules), expected="7" if rules else "seven")


def test_not_in_files_of_changes(log: str, tmp_path: Path) -> None:
    command("changes", log, "--output", "parquet", str(tmp_path / "all.parquet"))
    check(str(pq.read_table(tmp_path / "all.parquet").to_pylist()))
    with pytest.raises(SchemaError, match="TABLE_NOT_FOUND"):
        command("changes", log, "--table", "binlog_stream.snapshot_marks")


@pytest.mark.parametrize("rules", [(), ("--rules", RULES)])
def test_not_in_tail(log: str, rules: tuple[str, ...]) -> None:
    check(command("tail", log, "--from", "earliest", "--once", *rules), expected="7" if rules else "seven")


def test_events_are_listed_without_their_texts(log: str) -> None:
    listed = command("events", log, "--output", "jsonl")
    assert SECRET not in listed + command("events", log, "--limit", "1000")
    found = [json.loads(line) for line in listed.splitlines()]
    texts = [event["text"] for event in found if event["type"] == "query"]
    assert len([text for text in texts if text is None]) == len(ACCOUNTS) + len(ROUTINES) + 4
    assert "CREATE DATABASE shop" in texts
    assert {event["database"] for event in found if event["type"].startswith("write_rows")} == {"shop", "binlog_stream"}
    check(command("events", log, "--output", "jsonl", "--tables", ".*"), expected="people")


@pytest.mark.parametrize("rules", [{}, {"rules": RULES}])
def test_not_in_views_of_spark(log: str, rules: dict[str, str]) -> None:
    check(spark_rows(log, view="changes", includeDdl="true", **rules), expected="people")
    check(spark_rows(log, view="changefeed", table="shop.people", **rules), expected="7")
    check(spark_rows(log, view="changes", kafkaValue="debezium", topicPrefix="t", includeDdl="true", **rules))


def test_not_in_views_of_events_and_transactions_of_spark(log: str) -> None:
    check(spark_rows(log, view="transactions"), expected="shop.people")
    assert SECRET not in spark_rows(log, view="events")


def test_not_in_a_saved_history(log: str, tmp_path: Path) -> None:
    history = SchemaHistory()
    with open_log(log) as opened:
        for block in opened.committed_blocks():
            history.observe(block)
    save_history(history, str(tmp_path / "history.json"))
    saved = (tmp_path / "history.json").read_text()
    assert "people" in saved
    assert SECRET not in saved


def test_schema_changes_are_those_of_selected_tables_and_databases(tmp_path: Path) -> None:
    path = record(
        tmp_path / "log", *ACCOUNTS, *ROUTINES, *BODIES, *OF_OTHERS, "CREATE VIEW v AS SELECT 1", "DROP VIEW v"
    )
    options = EnvelopeOptions("t", schema_changes=True, skipped_operations=frozenset(MessageOperation))
    told = messages(path, options, TableFilter(r"shop\..*"))
    check(told, expected="CREATE DATABASE shop")
    assert "hidden" not in told
    assert "CREATE VIEW v" in told
    assert "DROP VIEW v" in told
    everything = messages(path, options)
    assert "CREATE TABLE hidden.notes" in everything
    assert "DROP DATABASE hidden" in everything
    assert "PROCEDURE" not in everything
    told = spark_rows(path, view="changes", includeDdl="true", tables=r"shop\..*")
    check(told, expected="CREATE TABLE")
    assert "hidden" not in told


def test_a_statement_about_tables_that_are_not_selected_too_names_the_others_alone(tmp_path: Path) -> None:
    path = record(tmp_path / "log", "DROP TABLE shop.people, hidden.notes")
    options = EnvelopeOptions("t", schema_changes=True, skipped_operations=frozenset(MessageOperation))
    with open_log(path) as opened:
        view = MessagesView(options, tables=TableFilter("shop[.]people"))
        rows = [row for batch in view.batches(opened.committed_blocks()) for row in batch.to_pylist()]
    assert json.loads(rows[-1]["value"])["tableChanges"] == [{"type": "DROP", "id": '"shop"."people"'}]


def test_a_statement_whose_tables_are_not_known_has_no_text_where_some_are_selected(tmp_path: Path) -> None:
    path = record(tmp_path / "log", f"CREATE UNIQUE INDEX unclear ('{SECRET}')")
    options = EnvelopeOptions("t", schema_changes=True, skipped_operations=frozenset(MessageOperation))
    assert SECRET in messages(path, options)
    told = messages(path, options, TableFilter(r"shop\..*"))
    assert SECRET not in told
    assert '"ddl":null' in told


@pytest.mark.parametrize("text", [*ACCOUNTS, *ROUTINES])
def test_errors_do_not_show_passwords(text: str) -> None:
    assert SECRET not in shown(DdlStatement(Position(0, 1, 2), 1, text))
    assert SECRET not in str(parse_ddl(f"{text} '", StatementSession("shop")))


@pytest.mark.parametrize("text", ACCOUNTS)
def test_statements_about_accounts_are_known(text: str) -> None:
    assert is_account_statement(text)
    assert contains_password(text)


@pytest.mark.parametrize("text", ROUTINES)
def test_routines_with_passwords_are_known(text: str) -> None:
    assert not is_account_statement(text)
    assert contains_password(text)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE user (id INT, password TEXT)",
        "CREATE TABLE event (password TEXT)",
        "INSERT INTO t VALUES ('GRANT')",
        "CREATE TABLE granted (a INT)",
        "SET @password = 1",
        "CREATE PROCEDURE p() SELECT 1",
        "ALTER TABLE t ADD password INT",
        "DROP TABLE users",
        "",
    ],
)
def test_other_statements_are_not(text: str) -> None:
    assert not contains_password(text)
