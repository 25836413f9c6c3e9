"""TLS, passwords and rights, on a real broker: what goes wrong is named within seconds, and secrets are never shown."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from binlog_connector.kafka.connection import Connection, Secret
from binlog_connector.kafka.topics import Topics
from binlog_format.errors import BinlogError, BrokerError, OptionError
from binlog_lab.demo.servers.kafka_broker import GUEST, USER
from tests.connector.kafka.topics import (
    CLIENTS,
    PATIENT_TIMEOUT,
    TIMEOUT,
    assert_once_in_order,
    new_case,
    publish_groups,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.faults.kafka_broker import KafkaBroker

WITHIN_SECONDS = 30.0
"""A third of a publisher's patience: nothing that is named here is tried again."""


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def secure(kafka_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> Connection:
    """With TLS, as the user who may do everything."""
    monkeypatch.setenv("KAFKA_PASSWORD", kafka_broker.passwords[USER])
    return Connection(
        kafka_broker.secure_servers,
        tls=True,
        ca_file=str(kafka_broker.ca_file),
        user=USER,
        password=Secret(environment="KAFKA_PASSWORD"),
        timeout=PATIENT_TIMEOUT,
    )


@pytest.fixture(scope="module")
def other_ca(kafka_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A certificate that has signed nothing."""
    other = type(kafka_broker)(tmp_path_factory.mktemp("other"))
    other._make_certificate()
    return str(other.ca_file)


@pytest.mark.server
def test_publishing_with_tls_and_a_password(kafka_broker: KafkaBroker, secure: Connection, client: str) -> None:
    case = new_case(kafka_broker, client, secure)
    with case.publisher() as publisher:
        publish_groups(publisher, case, 2)
    assert_once_in_order(case, 2)


@pytest.mark.server
def test_a_password_in_a_file(secure: Connection, kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(kafka_broker.passwords[USER] + "\n")
    with Topics(replace(secure, password=Secret(file=str(tmp_path / "password")))) as topics:
        assert topics.partition_count("nobody.made") is None


@pytest.mark.server
def test_a_wrong_password_is_named(
    kafka_broker: KafkaBroker, secure: Connection, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "not the password")
    _refused(
        kafka_broker, secure, client, r"AUTHENTICATION\] 127\.0\.0\.1:\d+: user app: .*Invalid username or password"
    )


@pytest.mark.server
def test_a_mechanism_that_the_broker_lacks_is_named(kafka_broker: KafkaBroker, secure: Connection, client: str) -> None:
    other = replace(secure, mechanism="SCRAM-SHA-256")
    _refused(kafka_broker, other, client, r"AUTHENTICATION.*SCRAM-SHA-256: the broker has PLAIN")


@pytest.mark.server
def test_a_certificate_that_is_not_trusted_is_named(
    kafka_broker: KafkaBroker, secure: Connection, client: str, other_ca: str
) -> None:
    text = r"TLS.*the broker's certificate is not trusted.*Name the file"
    _refused(kafka_broker, replace(secure, ca_file=other_ca), client, text)
    _refused(kafka_broker, replace(secure, ca_file=None), client, text)


@pytest.mark.server
def test_a_listener_that_wants_tls_is_named(kafka_broker: KafkaBroker, secure: Connection, client: str) -> None:
    plain = replace(secure, tls=False, user=None, password=None, timeout=TIMEOUT)
    _refused(kafka_broker, plain, client, r"UNREACHABLE.*does this port want TLS")


@pytest.mark.server
def test_a_listener_without_tls_is_named(kafka_broker: KafkaBroker, secure: Connection, client: str) -> None:
    _refused(kafka_broker, replace(secure, servers=kafka_broker.servers, timeout=TIMEOUT), client, r"TLS|UNREACHABLE")


@pytest.mark.server
def test_missing_rights_are_named(
    kafka_broker: KafkaBroker, secure: Connection, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", kafka_broker.passwords[GUEST])
    _refused(kafka_broker, replace(secure, user=GUEST), client, r"DENIED.*topic publisher-.*offsets")


def _refused(broker: KafkaBroker, connection: Connection, client: str, text: str) -> None:
    case = new_case(broker, client, connection)
    began = time.monotonic()
    with pytest.raises(BrokerError, match=text), case.publisher():
        pass
    assert time.monotonic() - began < WITHIN_SECONDS


def test_a_port_where_nobody_listens_is_named() -> None:
    with pytest.raises(BrokerError, match=r"UNREACHABLE\] 127\.0\.0\.1:1: no connection: .*refused"):
        Topics(Connection("127.0.0.1:1", timeout=1.0))


@pytest.fixture
def _debug_logs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    kafka = [name for name in logging.root.manager.loggerDict if name.startswith("kafka.")]
    before = {name: logging.getLogger(name).level for name in kafka}
    for name in kafka:
        logging.getLogger(name).setLevel(logging.DEBUG)
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "kafka"):
        yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


@pytest.mark.server
@pytest.mark.usefixtures("_debug_logs")
@pytest.mark.parametrize("is_right", [True, False])
def test_a_password_is_never_shown(
    kafka_broker: KafkaBroker,
    secure: Connection,
    client: str,
    is_right: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Not in logs, though all of them are wanted, nor in errors and what objects show of themselves."""
    password = kafka_broker.passwords[USER] if is_right else "a-wrong-secret"
    monkeypatch.setenv("KAFKA_PASSWORD", password)
    case = new_case(kafka_broker, client, secure)
    shown = [repr(secure), repr(case.publisher())]
    try:
        with case.publisher() as publisher:
            publish_groups(publisher, case, 1)
            shown += [repr(publisher), repr(publisher._producer)]
    except BinlogError as error:
        while error is not None:  # what it came from is shown too
            shown += [str(error), repr(error)]
            error = error.__cause__ or error.__context__  # type: ignore[assignment]
    shown += [record.getMessage() for record in caplog.records]
    written = capfd.readouterr()
    assert password not in "\n".join([*shown, caplog.text, written.out, written.err])


def test_a_secret_is_in_one_place() -> None:
    with pytest.raises(OptionError, match="in an environment variable or in a file"):
        Secret()
    with pytest.raises(OptionError, match="in an environment variable or in a file"):
        Secret(environment="A", file="b")


def test_a_secret_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_PASSWORD", raising=False)
    with pytest.raises(OptionError, match=r"MISSING.*KAFKA_PASSWORD"):
        Secret(environment="KAFKA_PASSWORD").reveal()
    with pytest.raises(BinlogError, match=f"NOT_FOUND.*{tmp_path}"):
        Secret(file=str(tmp_path / "none")).reveal()


def test_a_certificate_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(OptionError, match=r"ca\.pem: no certificate in PEM"):
        Connection("127.0.0.1:1", tls=True, ca_file=str(tmp_path / "ca.pem")).python_settings()
    with pytest.raises(BinlogError, match="NOT_FOUND"):
        Connection("127.0.0.1:1", tls=True, ca_file=str(tmp_path / "none.pem")).python_settings()


def test_a_user_has_a_password() -> None:
    with pytest.raises(OptionError, match="a user and a password belong together"):
        Connection("127.0.0.1:1", user="somebody")
