"""The same rule for topics, tables and Spark, on a MariaDB server's log: each shows the same rows, and nothing else."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import logging
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from kafka import KafkaConsumer

from binlog_connector.rules.row_rule import Mask, MaskKind
from binlog_format.errors import OptionError, SchemaError, UnsupportedError
from binlog_lab.demo.proof.topics import read_values
from binlog_streaming.jobs.publish_check import check_publish_job
from binlog_streaming.settings import TableRule
from binlog_streaming.settings.publish_model import PublishJob, TopicRule
from binlog_streaming.topics.job import TopicsJob
from tests.program import run_program
from tests.streaming.snapshot.live import BLACKHOLE, job_file, logged_groups, url_of
from tests.streaming.tables.jobs.test_job import job_for, run_once
from tests.streaming.test_rules_leaks import SECRET, everything_in
from tests.streaming.topics.publishing import publish_job
from tests.streaming.topics.test_live_server import run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from binlog_lab.demo.mariadb.server import MariaDbServer
    from tests.faults.kafka_broker import KafkaBroker

pytestmark = pytest.mark.usefixtures("shown_values")

pytestmark = pytest.mark.server

STATEMENTS = f"""
CREATE DATABASE shop CHARACTER SET utf8mb4;
CREATE TABLE shop.people (id INT PRIMARY KEY, country CHAR(2), email VARCHAR(60), card VARCHAR(20), password TEXT);
INSERT INTO shop.people VALUES (1, 'DE', 'a@{SECRET}', '{SECRET}-1111', '{SECRET}');
INSERT INTO shop.people VALUES (2, 'FR', 'b@{SECRET}', '{SECRET}-2222', '{SECRET}');
INSERT INTO shop.people VALUES (3, 'DE', NULL, '3', NULL), (4, NULL, '{SECRET}', '{SECRET}-4444', 'x');
UPDATE shop.people SET country = 'DE' WHERE id = 2;
UPDATE shop.people SET country = 'FR', email = '{SECRET}' WHERE id = 1;
UPDATE shop.people SET password = 'more of {SECRET}';
ALTER TABLE shop.people ADD COLUMN pin VARCHAR(20) NOT NULL DEFAULT 'it is {SECRET}';
INSERT INTO shop.people VALUES (5, 'DE', 'c@{SECRET}', '{SECRET}-5555', 'x', '{SECRET}');
DELETE FROM shop.people WHERE id = 3;
ALTER TABLE shop.people DROP COLUMN password, MODIFY card VARCHAR(40);
INSERT INTO shop.people VALUES (6, 'DE', 'd@{SECRET}', '{SECRET}-6666', '{SECRET}');
"""
RULE: dict[str, Any] = {
    "select": "shop[.]people",
    "drop_columns": ["password?"],
    "mask": {"email": "sha256", "card": "last 4", "pin?": "sha256"},
    "salt_variable": "DOORS_SALT",
    "where": "country = 'DE'",
}
SALT = "the salt"


@pytest.fixture(autouse=True)
def salt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOORS_SALT", SALT)


def _hash(text: str) -> str:
    return hashlib.sha256((SALT + text).encode()).hexdigest()


def _row(number: int, email: str, pin: str) -> dict[str, Any]:
    email, card = _hash(f"{email}@{SECRET}"), f"****{str(number) * 4}"
    return {"id": number, "country": "DE", "email": email, "card": card, "pin": _hash(pin)}


SHOWN = {2: _row(2, "b", f"it is {SECRET}"), 5: _row(5, "c", SECRET), 6: _row(6, "d", SECRET)}


def _toml(rule: dict[str, Any]) -> str:
    return f"[[tables]]\n{_rule_settings(rule)}"


def _rule_settings(rule: dict[str, Any]) -> str:
    mask = ", ".join(f"{json.dumps(name)} = {json.dumps(mask)}" for name, mask in rule["mask"].items())
    lines = [f"{name} = {json.dumps(value)}" for name, value in rule.items() if name != "mask"]
    return "\n".join([*lines, f"mask = {{ {mask} }}"])


def test_topics(
    mariadb_server: MariaDbServer, kafka_broker: KafkaBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    run(mariadb_server, STATEMENTS)
    more = f"schema_changes = true\ntransaction_metadata = true\nschemas_enable = true\n{_toml(RULE)}"
    job = publish_job(tmp_path, mariadb_server.binlog_directory, kafka_broker, more=more)
    TopicsJob(job, once=True).run()
    prefix = job.sink.topic_prefix
    topics = [f"{prefix}.shop.people", f"{prefix}.transaction", prefix, f"{prefix}.offsets"]
    found = [value or b"" for topic in topics for _, value in read_values(kafka_broker.servers, topic)]
    assert len(found) > 20
    assert SECRET not in b"".join(found).decode() + caplog.text + everything_in(tmp_path / "state")
    rows: dict[int, dict[str, Any]] = {}
    for _, value in read_values(kafka_broker.servers, topics[0]):
        if value is not None:
            message = msgspec.json.decode(value)["payload"]
            # The log has nothing of what ADD COLUMN gave to rows that were there.
            image = message["after"] or message["before"]
            rows.pop(image["id"], None) if message["op"] == "d" else rows.update({image["id"]: image})
    assert {key: {**row, "pin": SHOWN[key]["pin"]} for key, row in rows.items()} == SHOWN
    ddl = [msgspec.json.decode(value or b"")["payload"] for _, value in read_values(kafka_broker.servers, prefix)]
    assert [(change["ddl"], change["tableChanges"][0]["type"]) for change in ddl if change["tableChanges"]] == [
        (None, "CREATE"),
        (None, "ALTER"),
        (None, "ALTER"),
    ]

    run(mariadb_server, f"SET SESSION binlog_format = STATEMENT; UPDATE shop.people SET card = '{SECRET}'")
    with pytest.raises(UnsupportedError, match="STATEMENT_FORMAT") as caught:
        TopicsJob(job, once=True).run()
    assert SECRET not in str(caught.value) + caplog.text


def test_a_snapshot_and_passwords_are_in_no_topic_and_no_output(
    mariadb_server: MariaDbServer, kafka_broker: KafkaBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The rows are older than the log that is read: all that it has of them is in the snapshot's tables."""
    caplog.set_level(logging.DEBUG)
    run(mariadb_server, f"{BLACKHOLE};{STATEMENTS}; RESET MASTER")
    accounts = f"""
        CREATE USER u IDENTIFIED BY '{SECRET}'; SET PASSWORD FOR u = PASSWORD('{SECRET}');
        ALTER USER u IDENTIFIED BY '{SECRET}'; GRANT SELECT ON shop.* TO u2 IDENTIFIED BY '{SECRET}';
        CREATE PROCEDURE shop.p() SELECT 'a body'; CREATE PROCEDURE shop.p2() SET PASSWORD = PASSWORD('{SECRET}')
    """
    run(mariadb_server, accounts)
    job_path = job_file(tmp_path, mariadb_server.binlog_directory, _rule_settings(RULE))
    snapshot = ["snapshot", str(job_path), "--server", url_of(mariadb_server), "--yes"]
    done = run_program(*snapshot, environment={"BINLOG_STREAM_PASSWORD": mariadb_server.password})
    assert done.returncode == 0, done.stderr
    assert any(group.mark is not None for group in logged_groups(mariadb_server.binlog_directory))
    run(mariadb_server, "INSERT INTO shop.people VALUES (7, 'DE', 'x', 'y', 'z'); CREATE DATABASE other")

    for rules in (_toml(RULE), ""):
        job = publish_job(
            tmp_path / str(bool(rules)),
            mariadb_server.binlog_directory,
            kafka_broker,
            more=f"schema_changes = true\ntransaction_metadata = true\nquery = {str(not rules).lower()}\n{rules}",
        )
        TopicsJob(job, once=True).run()
        prefix = job.sink.topic_prefix
        consumer = KafkaConsumer(bootstrap_servers=kafka_broker.servers)
        topics = {topic for topic in consumer.topics() if topic.startswith(prefix)}
        consumer.close()
        # The rule is about one table, to which nothing was done as a whole.
        of_schemas = set() if rules else {prefix}
        assert topics == of_schemas | {f"{prefix}.{name}" for name in ("shop.people", "transaction", "offsets")}
        values = [value or b"" for topic in topics for _, value in read_values(kafka_broker.servers, topic)]
        found, state = b"".join(values).decode(), everything_in(tmp_path / str(bool(rules)) / "state")
        assert ("CREATE DATABASE" in found) is (not rules)
        # Without rules nothing is hidden, and the checkpoint has what statements define: defaults, too.
        assert SECRET not in found + caplog.text + (state if rules else "")
        found += state
        assert "snapshot_marks" not in found
        assert "a body" not in found

    log = mariadb_server.binlog_directory
    for command in (["changes"], ["tail", "--from", "earliest", "--once"], ["events"]):
        for more in ([], ["--rules", json.dumps([RULE])]):
            if not (command == ["events"] and more):
                done = run_program(command[0], log, *command[1:], "--output", "jsonl", *more)
                assert done.returncode == 0, done.stderr
                assert "people" in done.stdout
                assert SECRET not in done.stdout + done.stderr


def test_rules_of_topics_do_not_change(
    mariadb_server: MariaDbServer, kafka_broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(mariadb_server, STATEMENTS)
    job = publish_job(tmp_path, mariadb_server.binlog_directory, kafka_broker, more=_toml(RULE))
    TopicsJob(job, once=True).run()

    def with_rule(**changed: Any) -> None:
        (rule,) = job.tables
        TopicsJob(msgspec.structs.replace(job, tables=(msgspec.structs.replace(rule, **changed),)), once=True).run()

    with_rule(drop_columns=("password",), mask={name.removesuffix("?"): mask for name, mask in RULE["mask"].items()})
    with pytest.raises(OptionError, match=r"tables\[0\]\.where: this checkpoint was begun with \"country = 'DE'\""):
        with_rule(where=None)
    monkeypatch.setenv("DOORS_SALT", "another")
    told = r"tables\[0\]\.salt_variable: this checkpoint was begun with 'the salt \w+'"
    with pytest.raises(OptionError, match=told):
        with_rule()
    monkeypatch.delenv("DOORS_SALT")
    with pytest.raises(OptionError, match=r"MISSING.*DOORS_SALT is not set"):
        with_rule()


def test_topics_end_where_a_hidden_column_gets_another_name(
    mariadb_server: MariaDbServer, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    """And go on when the rule has both names, which then stay in it."""
    run(mariadb_server, "CREATE DATABASE shop; CREATE TABLE shop.p (id INT PRIMARY KEY, email VARCHAR(60))")
    run(mariadb_server, f"INSERT INTO shop.p VALUES (1, '{SECRET}')")

    started = publish_job(tmp_path, mariadb_server.binlog_directory, kafka_broker)

    def with_masks(*names: str) -> PublishJob:
        rule = msgspec.convert({"select": "shop.p", "mask": dict.fromkeys(names, "null")}, TopicRule)
        return msgspec.structs.replace(started, tables=(rule,))

    def publish(*names: str) -> None:
        TopicsJob(with_masks(*names), once=True).run()

    publish("email?")
    run(mariadb_server, "ALTER TABLE shop.p CHANGE email mail VARCHAR(60)")
    run(mariadb_server, f"INSERT INTO shop.p VALUES (2, '{SECRET}')")
    with pytest.raises(SchemaError, match=r"SCHEMA_CHANGED\] shop\.p: column email is called mail now"):
        publish("email?")
    (problem,) = check_publish_job(with_masks("email?")).problems
    assert "SCHEMA_CHANGED] shop.p: column email is called mail now" in problem
    assert not check_publish_job(with_masks("email?", "mail?")).problems
    publish("email?", "mail?")
    with pytest.raises(
        OptionError, match=r"tables\[0\]\.mask: this checkpoint was begun with 'email = null, mail = null'"
    ):
        publish("email?")
    with pytest.raises(OptionError, match=r"tables\[0\]\.mask: this checkpoint was begun with"):
        publish("email?", "mail?", "id")
    topic = f"{started.sink.topic_prefix}.shop.p"
    values = [msgspec.json.decode(value)["after"] for _, value in read_values(kafka_broker.servers, topic) if value]
    assert values == [{"id": 1, "email": None}, {"id": 2, "mail": None}]


@pytest.mark.spark
def test_tables_and_spark(
    mariadb_server: MariaDbServer, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "binlog_streaming")
    run(mariadb_server, STATEMENTS)
    log = mariadb_server.binlog_directory
    job = job_for(tmp_path, (msgspec.convert(RULE, TableRule),), log)
    run_once(job, spark)
    table = DeltaTable(str(tmp_path / "tables" / "shop" / "people")).to_pyarrow_table()
    assert {row["id"]: row for row in table.to_pylist()} == SHOWN
    assert SECRET not in everything_in(tmp_path / "tables") + caplog.text

    # Spark's processes have the environment that Java was started with.
    rules = json.dumps([{**RULE, "salt_variable": "PATH"}])
    source = {"path": str(log), "rules": rules}
    changes = (
        spark.read.format("binlog-stream").options(**source, includeDdl="true", tables="shop[.].*").load().collect()
    )
    assert [row["op"] for row in changes if row["op"] != "ddl"] == [
        *("insert", "insert", "insert", "delete"),
        *("update", "update", "insert", "delete", "insert"),
    ]
    assert {row["query"] for row in changes} == {None}
    assert SECRET not in str(changes)
    inserts = spark.read.format("binlog-stream").options(**source).load().where("op = 'insert'")
    assert inserts.count() == sum(row["op"] == "insert" for row in changes)


def test_hashes_are_those_of_the_server(mariadb_server: MariaDbServer) -> None:
    values = {
        "VARCHAR(20)": pa.array(["", "äöü😀"]),
        "BIGINT": pa.array([-(2**63), 0, 17]),
        "DECIMAL(8,2)": pa.array([Decimal("-1.50"), Decimal("0.00"), Decimal("100.00")]),
        "DATE": pa.array([dt.date(2026, 1, 31)]),
        "DATETIME(6)": pa.array([dt.datetime.fromisoformat("2026-01-31 12:00:00.5")], pa.timestamp("us")),
    }
    mask = Mask(MaskKind.SHA256, salt=b"the salt")
    with mariadb_server.connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SET NAMES utf8mb4")
        cursor.execute("CREATE DATABASE shop")
        for kind, some in values.items():
            cursor.execute(f"CREATE OR REPLACE TABLE shop.hashed (n INT, v {kind}) CHARACTER SET utf8mb4")
            cursor.executemany("INSERT INTO shop.hashed VALUES (%s, %s)", list(enumerate(some.to_pylist())))
            cursor.execute("SELECT SHA2(CONCAT('the salt', v), 256) FROM shop.hashed ORDER BY n")
            assert [row[0] for row in cursor.fetchall()] == mask.masked(some).to_pylist(), kind
