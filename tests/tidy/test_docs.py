"""The documentation keeps up with the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.errors_page import PAGE, conditions, page_text, sections
from tests.raised_conditions import raising_tests

REPO = Path(__file__).resolve().parents[2]
DOCS = sorted([*REPO.glob("*.md"), *(REPO / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?://)([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("path", DOCS, ids=lambda path: str(path.relative_to(REPO)))
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    missing = [target for target in LINK.findall(path.read_text()) if not (path.parent / target).exists()]
    assert missing == []


def test_page_is_made_from_the_code() -> None:
    assert PAGE.read_text() == page_text(), "python -m tests.docs.errors_page"


def test_each_condition_has_a_meaning_and_no_other_has() -> None:
    described = {name for section in sections() for error in section["error"] for name in error["conditions"]}
    assert described == set(conditions())


def test_each_condition_is_raised_by_a_test_that_expects_it() -> None:
    tests = raising_tests()
    assert list(tests) == sorted(conditions())
    for condition, test in tests.items():
        file, _, name = test.partition("[")[0].partition("::")
        text = _function(REPO / file, name)
        assert re.search(rf"\b{condition.partition('.')[2]}\b", text), f"{test} does not name {condition}"


def _function(file: Path, name: str) -> str:
    """Text of a function with its decorators."""
    text = file.read_text()
    (found,) = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == name]
    first = min([found.lineno, *(one.lineno for one in found.decorator_list)])
    return "\n".join(text.splitlines()[first - 1 : found.end_lineno])
