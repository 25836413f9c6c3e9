"""`docs/guarantees.md` and other pages that name tests: each one exists, and each promise has one."""

from __future__ import annotations

import ast
import fnmatch
import re
from typing import TYPE_CHECKING

import pytest

from tests.docs.markdown import REPO, table_rows
from tests.streaming.bad_days.test_scenarios import SCENARIOS

if TYPE_CHECKING:
    from pathlib import Path

TESTS = REPO / "tests"
PAGES = ["docs/comparison.md", "docs/failover.md", "docs/guarantees.md", "docs/security.md", "docs/upgrade.md"]
NAMED = re.compile(r"`([\w/]+\.py)::([^`]*)`|`::([^`]*)`")
"""`file.py::test_name`, and after it in one line `::test_name` of the same file."""
PROMISES = (
    "## What is read",
    "## What a job writes",
    "## Snapshots and proof",
    "## Lives",
    "## What a job refuses by name",
)


def named_tests(page: str) -> list[tuple[str, str]]:
    """File below `tests/` and name of each test that *page* names."""
    found = []
    for line in (REPO / page).read_text().splitlines():
        file = ""
        for match in NAMED.finditer(line):
            file = match[1] or file
            found.append((file, match[2] or match[3] or ""))
    return found


def names_in(path: Path) -> set[str]:
    """Names of the tests in a module, also of those in classes."""
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@pytest.mark.parametrize("page", PAGES)
def test_tests_that_a_page_names_exist(page: str) -> None:
    missing = []
    for file, name in named_tests(page):
        path = TESTS / file
        plain = name.partition("[")[0]
        if not path.is_file() or not (names_in(path) if plain == "..." else plain in names_in(path)):
            missing.append(f"{file}::{name}")
    assert missing == []


def test_every_promise_names_a_test() -> None:
    rows = [row for heading in PROMISES for row in table_rows("docs/guarantees.md", heading)]
    assert len(rows) > 30
    for promise, proof in rows:
        patterns = [text.replace("...", "*") for text in re.findall(r"`([a-z_]+-[\w.]+)`", proof)]
        assert all(fnmatch.filter(SCENARIOS, pattern) for pattern in patterns), promise
        assert NAMED.search(proof) or patterns, promise


def test_mistakes_of_peers_name_their_tests() -> None:
    names = names_in(TESTS / "test_peers_mistakes.py")
    documented = set(re.findall(r"`(test_\d_\w+)`", (REPO / "docs/comparison.md").read_text()))
    assert documented == {name for name in names if re.match(r"test_\d_", name)}
