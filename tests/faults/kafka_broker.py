"""A real Kafka broker for tests, from Maven's files or else in a container: `kafka_broker_in`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.servers.kafka_broker import KafkaBroker
from tests.faults.container_engine import NO_ENGINE, ContainerProcess, engine

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["KafkaBroker", "kafka_broker_in"]

_COMPOSE = Path(__file__).parents[2] / "deploy/compose/compose.yaml"


def kafka_broker_in(folder: Path, *, proxy_port: int | None = None) -> KafkaBroker:
    """The demo's broker; where its files are not there, the same in a container; a test without either is skipped."""
    try:
        return KafkaBroker(folder, proxy_port=proxy_port)
    except DemoError as error:
        if engine() is None:
            pytest.skip(f"{error.reason}: {error.hint}; and {NO_ENGINE}")
        return _ContainerBroker(folder, proxy_port=proxy_port)


class _ContainerBroker(KafkaBroker):
    """The same program with the same settings, from the image that the compose file names."""

    def _find_programs(self) -> tuple[Path, str, str]:
        return Path("/opt/kafka/libs"), "java", "keytool"

    def _launch(self, command: Sequence[str]) -> ContainerProcess:
        image = yaml.safe_load(_COMPOSE.read_text())["services"]["kafka"]["image"]
        return ContainerProcess(image, command, self.folder, os.getuid())

    def _checked(self, command: Sequence[str]) -> None:
        process = self._launch(command)
        status, said = process.ended()
        if status != 0:
            raise DemoError("PROCESS_FAILED", f"{command[0]}: {said.strip()}")
