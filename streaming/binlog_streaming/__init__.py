"""Jobs: tables kept in step with a log, the command line, the demo."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str


def __getattr__(name: str) -> str:
    # What is installed is looked up only when somebody asks: Spark's workers import this package too.
    if name == "__version__":
        from importlib.metadata import version

        return version("binlog-stream")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
