"""A real Iceberg REST catalog for tests: `RestCatalog`, the demo's; a test without one is skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.servers import rest_catalog as demo

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.object_store import ObjectStore


class RestCatalog(demo.RestCatalog):
    """The demo's server; a test without one is skipped."""

    def __init__(self, folder: Path, store: ObjectStore | None = None) -> None:
        try:
            super().__init__(folder, store)
        except DemoError as error:
            pytest.skip(str(error))
