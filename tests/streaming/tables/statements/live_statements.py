"""What administrators and their tools do to tables, on a server: `run_statements`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pymysql.cursors import Cursor

DATABASE = "shop"
WITHOUT_WHOLE_ROWS = ("partly",)
WITHOUT_KEY = ("keyless",)

_FILE = Path(__file__).with_suffix(".sql")


def run_statements(cursor: Cursor) -> None:
    """Do them all, in a database of their own."""
    cursor.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
    cursor.execute(f"USE {DATABASE}")
    cursor.execute("SET SESSION time_zone = '+00:00', sql_mode = ''")
    for line in _FILE.read_text().splitlines():
        if line and not line.startswith("--"):
            cursor.execute(line)
