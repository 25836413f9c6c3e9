"""What tests of several formats have in common: DuckDB, with the libraries of others for Delta and Iceberg."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    try:
        import duckdb
        import duckdb_ext
    except ModuleNotFoundError:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip("DuckDB and its extension for Delta come as packages on x86-64 Linux alone")
    with duckdb_ext.init(duckdb.connect()) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection
