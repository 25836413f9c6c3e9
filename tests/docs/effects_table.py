"""The table of conversions in `docs/ddl.md`, made from the code; `python -m tests.docs.effects_table` writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_connector.schema.alteration import Defaults, altered, created
from binlog_connector.schema.effects.column_effects import alter_effects
from binlog_connector.schema.effects.conversion import Circumstances, Converted, Same
from binlog_connector.schema.operations import AlterTable, CreateTable
from binlog_connector.schema.parsing.ddl import parse_ddl
from binlog_connector.schema.parsing.session import StatementSession
from binlog_format.rows.declared.declared_types import Moment
from binlog_format.rows.decoding import DEFAULT_DECODING
from binlog_format.vendor import Vendor
from tests.docs.markdown import REPO

if TYPE_CHECKING:
    from pathlib import Path

PAGE: Path = REPO / "docs" / "ddl.md"
BEGIN = "<!-- Made by `python -m tests.docs.effects_table` from connector/binlog_connector/schema/effects. -->\n"
END = "<!-- end -->\n"
TYPES = {
    "integer": "INT",
    "DECIMAL": "DECIMAL(10,4)",
    "FLOAT": "DOUBLE",
    "YEAR": "YEAR",
    "text": "VARCHAR(40)",
    "CHAR": "CHAR(40)",
    "binary": "VARBINARY(40)",
    "BINARY": "BINARY(16)",
    "ENUM": "ENUM('a','b')",
    "SET": "SET('a','b')",
    "DATE": "DATE",
    "DATETIME": "DATETIME(3)",
    "TIMESTAMP": "TIMESTAMP(3) NULL",
    "TIME": "TIME(3)",
    "UUID": "UUID",
    "INET6": "INET6",
}
OTHERS = {
    "DECIMAL": "DECIMAL(8,2)",
    "ENUM": "ENUM('b','c','a')",
    "SET": "SET('b','a')",
    "TIME": "TIME",
    "BINARY": "BINARY(20)",
}
OTHERS |= {
    "DATETIME": "DATETIME",
    "TIMESTAMP": "TIMESTAMP NULL",
    "FLOAT": "FLOAT",
    "integer": "BIGINT",
    "text": "VARCHAR(50)",
}
"""Of a type that becomes another of its kind."""


def table_text() -> str:
    """Rows are types before the statement, columns types after it, in a strict session of MariaDB."""
    lines = ["| from, to | " + " | ".join(TYPES) + " |", "|---" * (len(TYPES) + 1) + "|"]
    for name, old in TYPES.items():
        cells = [_cell(old, OTHERS.get(other, new) if other == name else new) for other, new in TYPES.items()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(old: str, new: str) -> str:
    session = StatementSession("w", vendor=Vendor.MARIADB)
    (create,) = parse_ddl(f"CREATE TABLE w.t (id INT PRIMARY KEY, c {old})", session)
    (alter,) = parse_ddl(f"ALTER TABLE w.t MODIFY c {new}", session)
    assert isinstance(create, CreateTable)
    assert isinstance(alter, AlterTable)
    defaults = Defaults(Vendor.MARIADB, "utf8mb4")
    before = created(create, defaults)
    how = Circumstances(Vendor.MARIADB, True, True, DEFAULT_DECODING, Moment(0, 0, "+00:00"))
    effect = alter_effects(before, altered(before, alter, defaults), alter, how)["c"].effect
    if isinstance(effect, Same):
        return "same"
    if isinstance(effect, Converted):
        return "if" if effect.may_fail else "yes"
    return "-"


def page_text(page: str) -> str:
    """*page* with the table as the code has it."""
    head, rest = page.split(BEGIN)
    return head + BEGIN + table_text() + END + rest.split(END, 1)[1]


if __name__ == "__main__":
    PAGE.write_text(page_text(PAGE.read_text("utf-8")), "utf-8")
