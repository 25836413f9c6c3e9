"""A schema registry: what is registered keeps its id, and what keeps it from being used is told, without secrets."""

from __future__ import annotations

import json
import pickle
import socket
from typing import TYPE_CHECKING

import pytest

from binlog_connector.kafka.connection import Secret
from binlog_connector.kafka.registry import RegistryConnection, SchemaRegistry
from binlog_format.errors import BrokerError, RegistryError
from tests.faults.schema_registry import SchemaRegistryServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ONE = '{"type":"record","name":"Key","fields":[{"name":"a","type":"int"}]}'
WIDER = '{"type":"record","name":"Key","fields":[{"name":"a","type":"long"}]}'
MORE = '{"type":"record","name":"Key","fields":[{"name":"a","type":"int"},{"name":"b","type":"int"}]}'
SUBJECT = "shop.a/b-key"


@pytest.fixture
def server() -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer() as running:
        yield running


def _registry(server: SchemaRegistryServer, **settings: object) -> SchemaRegistry:
    return SchemaRegistry(RegistryConnection(server.url, **settings))  # type: ignore[arg-type]


def test_a_schema_keeps_its_id_and_is_asked_for_once(server: SchemaRegistryServer) -> None:
    registry = _registry(server)
    first, second = registry.id_of(SUBJECT, ONE), registry.id_of("other", ONE)
    wider = registry.id_of(SUBJECT, WIDER)
    assert first == second != wider
    assert [registry.id_of(SUBJECT, schema) for schema in (ONE, WIDER)] == [first, wider]
    assert len(server.requests) == 3
    assert server.versions(SUBJECT) == [json.loads(ONE), json.loads(WIDER)]
    again = _registry(server)
    assert [again.id_of(SUBJECT, schema) for schema in (ONE, WIDER)] == [first, wider]
    assert len(server.versions(SUBJECT)) == 2


def test_the_newest_schema_of_a_subject(server: SchemaRegistryServer) -> None:
    assert _registry(server).latest(SUBJECT) is None
    _registry(server).id_of(SUBJECT, ONE)
    wider = _registry(server).id_of(SUBJECT, WIDER)
    assert _registry(server).latest(SUBJECT) == (wider, WIDER)


def test_a_schema_that_the_subject_does_not_allow_is_named(server: SchemaRegistryServer) -> None:
    registry = _registry(server)
    registry.id_of(SUBJECT, ONE)
    assert registry.refusal("new", MORE) is None
    assert registry.refusal(SUBJECT, WIDER) is None
    assert "/b: a new field without a default" in str(registry.refusal(SUBJECT, MORE))
    with pytest.raises(
        RegistryError, match=r"BINLOG_REGISTRY\.INCOMPATIBLE.*subject shop.a/b-key.*a new field"
    ) as caught:
        registry.id_of(SUBJECT, MORE)
    assert "PUT /config/SUBJECT" in str(caught.value.hint)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    server.compatibility[SUBJECT] = "NONE"
    assert registry.id_of(SUBJECT, MORE) == 2


@pytest.mark.parametrize(
    ("status", "subclass"), [(500, "FAILED"), (503, "FAILED"), (429, "FAILED"), (403, "DENIED"), (302, "REFUSED")]
)
def test_what_it_answers_is_named(server: SchemaRegistryServer, status: int, subclass: str) -> None:
    server.failures.append(status)
    registry = _registry(server)
    with pytest.raises(
        BrokerError, match=rf"BINLOG_REGISTRY\.{subclass}\] {server.url}: subject {SUBJECT}: "
    ) as caught:
        registry.id_of(SUBJECT, ONE)
    assert f"HTTP status {status}" in caught.value.reason
    assert registry.id_of(SUBJECT, ONE) == 1


def test_one_without_tls_is_named(server: SchemaRegistryServer) -> None:
    registry = SchemaRegistry(RegistryConnection(server.url.replace("http:", "https:")))
    with pytest.raises(RegistryError, match=r"BINLOG_REGISTRY\.TLS"):
        registry.id_of(SUBJECT, ONE)


def test_a_password_is_sent_and_not_shown(server: SchemaRegistryServer, tmp_path: Path) -> None:
    server.user, server.password = "app", "correct horse"
    (tmp_path / "password").write_text("correct horse\n")
    assert _registry(server, user="app", password=Secret(file=str(tmp_path / "password"))).id_of(SUBJECT, ONE) == 1
    (tmp_path / "password").write_text("wrong pony")
    for registry in (
        _registry(server, user="app", password=Secret(file=str(tmp_path / "password"))),
        _registry(server),
    ):
        with pytest.raises(RegistryError, match=r"BINLOG_REGISTRY\.AUTHENTICATION") as caught:
            registry.id_of(SUBJECT, ONE)
        assert "pony" not in str(caught.value)


def test_nobody_there_is_named_and_the_next_address_is_tried(server: SchemaRegistryServer) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(RegistryError, match=rf"REGISTRY\.UNREACHABLE\] {nobody}: subject {SUBJECT}: no conn"):
            SchemaRegistry(RegistryConnection(nobody)).id_of(SUBJECT, ONE)
        assert SchemaRegistry(RegistryConnection(f"{nobody}, {server.url}/")).id_of(SUBJECT, ONE) == 1


def test_one_that_does_not_answer_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RegistryError, match=r"UNREACHABLE.*no answer within 0.2 s"):
            SchemaRegistry(RegistryConnection(url, timeout=0.2)).reach()


def test_what_is_no_registry_is_named(server: SchemaRegistryServer) -> None:
    registry = SchemaRegistry(RegistryConnection(f"{server.url}/elsewhere"))
    with pytest.raises(RegistryError, match=r"BINLOG_REGISTRY\.REFUSED"):
        registry.id_of(SUBJECT, ONE)
    with pytest.raises(RegistryError, match=r"BINLOG_REGISTRY\.REFUSED"):
        registry.reach()
