"""Where the cases are, and how each is read: `case_path`, `CASES`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.corpus import SERVER_CASES
from tests.truth.truth_case import Case, load_case

if TYPE_CHECKING:
    from pathlib import Path

NAMED = (
    "mariadb-10.11/types_full",
    "mariadb-10.11/ops",
    "mariadb-10.11/ops_compressed",
    "mariadb-10.11/rotation",
    "mariadb-11.8/rotation",
    "mysql-9/types_full",
    "mysql-9/ops",
    "mysql-9/ops_zstd",
    "mysql-9/json_full",
    "mysql-9/json_partial",
    "mysql-9/rotation",
)
"""Row by row, and the log names the columns."""

NAMELESS = (
    "mariadb-10.11/types_minimal_nolog",
    "mariadb-10.11/types_noblob_metamin",
    "mariadb-10.11/types_oldtemporal",
    "mariadb-10.11/ops_nochecksum",
    "mariadb-10.11/ops_minimal",
)
"""Row by row; the log does not record all about the columns."""

TORN = ("mariadb-10.11/torn", "mysql-9/torn")
"""The server was killed inside a write."""

HUGE = ("mariadb-10.11/hugeblob", "mysql-9/hugeblob")
"""Values of 16 MB and more, in a compressed log."""

ENCRYPTED = "mariadb-10.11/encrypted"

FINAL_TABLES = ("mariadb-10.11/oltp_small", "mariadb-11.8/oltp_small", "mysql-9/oltp_small")
"""Several connections; the tables at the end are known."""


def case_path(name: str) -> Path:
    """Folder of the case."""
    return SERVER_CASES / name


def case(name: str) -> Case:
    """The truth of a case."""
    return load_case(case_path(name))
