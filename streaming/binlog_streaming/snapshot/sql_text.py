"""Names and values as SQL text: `quoted`, `table_sql`, `literal`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def table_sql(schema: str, table: str) -> str:
    """A table's full name."""
    return f"{quoted(schema)}.{quoted(table)}"


def name_list(names: Iterable[str]) -> str:
    """Names with commas between them."""
    return ", ".join(quoted(name) for name in names)
