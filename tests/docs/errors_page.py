"""The page of all errors, made from the code and `docs/errors.toml` by `python -m tests.docs.errors_page`.

The code has the conditions and their exit statuses, the TOML file what they mean and what to do.
"""

from __future__ import annotations

import textwrap
import tomllib
from typing import TYPE_CHECKING, Any

from binlog_format.errors import BinlogError
from binlog_lab.demo import failures
from binlog_lab.demo.mariadb import installed
from tests.docs.markdown import REPO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE: Path = REPO / "docs" / "errors.md"
SOURCE: Path = REPO / "docs" / "errors.toml"
FAMILIES = (failures.DemoError, installed.DatabaseServerError)
"""Families that the laboratory adds; to name them loads them."""
HEAD = """# Errors: every condition, what it means, what to do

<!-- Made by `python -m tests.docs.errors_page` from the code and docs/errors.toml. -->

A message is one line: `[CONDITION] where: what: stored or expected, computed or got. What to do`. The place is the file
with its directory, and page and byte, as far as the format has them. In Spark it is the first line of the exception's
text. Names of conditions never change their meaning. *Not there yet* is never an error: the program waits for the rest
of half-written pages and for the end of transactions.

The sections are what kind of trouble it is: the job, the machine, the log, a table, a server, brokers. Exit status: 0
done; 1 an error of this page; 2 a mistake in the job file or the command; 130 and 143 after a signal. Values of rows
are hidden unless `errors_show_values = true` ([security.md](security.md#values-of-rows)). What a job does when it is
killed, or its disk is full: [operations.md](operations.md).
"""
TABLE = "| condition | exit status | meaning | what to do |\n|---|---|---|---|\n"


def families(root: type[BinlogError] = BinlogError) -> Iterator[type[BinlogError]]:
    """All families of errors."""
    for family in root.__subclasses__():
        if family.__module__.startswith("binlog_"):
            yield family
            yield from families(family)


def conditions() -> dict[str, int]:
    """Every condition of the code, and its exit status."""
    return {
        error.condition: 2 if error.is_wrong_use else 1
        for family in families()
        for error in (family(subclass, "") for subclass in family.SUBCLASSES)
    }


def sections() -> list[dict[str, Any]]:
    """Sections of the TOML file."""
    found: list[dict[str, Any]] = tomllib.loads(SOURCE.read_text())["section"]
    return found


def page_text() -> str:
    """The page."""
    statuses = conditions()
    parts = [HEAD]
    for section in sections():
        rows = "".join(_row(error, statuses) for error in section["error"])
        parts.append(f"## {section['title']}\n\n{textwrap.fill(section['about'], 120)}\n\n{TABLE}{rows}")
    return "\n".join(parts)


def _row(error: dict[str, Any], statuses: dict[str, int]) -> str:
    names = error["conditions"]
    shown = ", ".join(
        f"`{name}`" if number == 0 else f"`.{name.partition('.')[2]}`" for number, name in enumerate(names)
    )
    (status,) = {statuses[name] for name in names}
    return f"| {shown} | {status} | {error['meaning']} | {error['remedy']} |\n"


if __name__ == "__main__":
    PAGE.write_text(page_text())
