"""A registry of schemas in memory, with which messages in Avro are read: `ModelRegistry`.

It has no rules about compatibility: each schema is taken. A request gets lost before it is done, or its answer after.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import fastavro

from binlog_connector.kafka.registry import SchemaRegistry
from binlog_format.errors import RegistryError
from binlog_format.position import Place
from binlog_lab.simulator.machine import replaced
from binlog_lab.simulator.verdict import DefectError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_lab.simulator.disk import Disk

REGISTRY_CALLS = ("ask the registry, before", "ask the registry, after")
_HEAD_SIZE = 5
"""Bytes before a value: a zero, and the id of its schema."""


@dataclass(slots=True)
class ModelRegistry:
    """Schemas by id, from 1; subjects have ids. *disk*: of the job's machine; faults at requests are put there."""

    disk: Disk
    _schemas: list[str] = field(default_factory=list)
    _subjects: dict[str, list[int]] = field(default_factory=dict)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let requests of this process go to this registry."""

        def answer(_: SchemaRegistry, url: str, at: str, schema: str | None) -> Any:
            return self._answered(url, at, schema)

        with replaced([(SchemaRegistry, "_answer", answer)]):
            yield

    def read(self, message: bytes | None) -> Any:
        """A key or a value as JSON has it. Raises `DefectError`: it is not what its schema says."""
        if message is None:
            return None
        number = int.from_bytes(message[1:_HEAD_SIZE], "big")
        content = BytesIO(message[_HEAD_SIZE:])
        try:
            value = fastavro.schemaless_reader(content, json.loads(self._schemas[number - 1]), None)
        except (ValueError, IndexError, EOFError) as error:
            raise DefectError(f"a message does not have its schema {number}: {error}") from error
        if content.read():
            raise DefectError(f"a message has more than its schema {number}")
        return value

    def _answered(self, url: str, at: str, schema: str | None) -> Any:
        try:
            before, after = REGISTRY_CALLS
            self.disk.elsewhere(before)
            answer = self._done(url, schema)
            self.disk.elsewhere(after)
        except OSError as error:
            raise RegistryError("UNREACHABLE", f"no connection: {error}", at=Place(at)) from error
        return answer

    def _done(self, url: str, schema: str | None) -> Any:
        _, _, path = url.partition("/subjects/")
        if not path:
            return ["AVRO"]
        subject = unquote(path.partition("/")[0])
        if schema is None:
            numbers = self._subjects.get(subject)
            return numbers and {"id": numbers[-1], "schema": self._schemas[numbers[-1] - 1]}
        if schema not in self._schemas:
            self._schemas.append(schema)
        number = self._schemas.index(schema) + 1
        numbers = self._subjects.setdefault(subject, [])
        if number not in numbers:
            numbers.append(number)
        return {"id": number}
