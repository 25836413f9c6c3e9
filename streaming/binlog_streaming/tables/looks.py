"""Targets that have been looked at, each once: `Looks`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from binlog_streaming.lake.target import Target, TargetFactory
    from binlog_streaming.settings import Sink


class Looks:
    """The targets of one component.

    Args:
        sink: Where they are.
        factory: Makes them.
    """

    def __init__(self, sink: Sink, factory: TargetFactory) -> None:
        self._sink = sink
        self._factory = factory
        self._targets: dict[str, Target] = {}

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What the libraries below them raise."""
        return (*self._factory.write_errors, OSError, pa.ArrowException)

    def at(self, uri: str) -> Target:
        """The target at a place, as it was when it was looked at."""
        if uri not in self._targets:
            self._targets[uri] = self._factory.at(self._sink, uri)
        return self._targets[uri]

    def forget(self, uri: str) -> None:
        """The next one who asks looks again."""
        target = self._targets.pop(uri, None)
        if target is not None:
            target.close()

    def close(self) -> None:
        """Let go of all connections."""
        for uri in list(self._targets):
            self.forget(uri)
