"""The documentation keeps up with the code."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.docs.errors_page import PAGE, conditions, families, page_text, sections

REPO = Path(__file__).resolve().parents[2]
DOCS = sorted([*REPO.glob("*.md"), *(REPO / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?://)([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("path", DOCS, ids=lambda path: str(path.relative_to(REPO)))
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    missing = [target for target in LINK.findall(path.read_text()) if not (path.parent / target).exists()]
    assert missing == []


UNTESTED = {
    "BINLOG_DEMO.NO_CHECKOUT": "tests run from a checkout; the wheel has no tests",
    "BINLOG_DEMO.STANDS_STILL": "it takes a server that stops to write for minutes",
}
"""Conditions that no test raises, with the reason."""


def test_page_is_made_from_the_code() -> None:
    assert PAGE.read_text() == page_text(), "python -m tests.docs.errors_page"


def test_each_condition_has_a_meaning_and_no_other_has() -> None:
    described = {name for section in sections() for error in section["error"] for name in error["conditions"]}
    assert described == set(conditions())


def test_each_condition_is_expected_by_a_test() -> None:
    files = [path for path in sorted((REPO / "tests").rglob("*.py")) if path != Path(__file__)]
    words = [frozenset(re.findall(r"\w+", path.read_text())) for path in files]
    counts = Counter(name.partition(".")[2] for name in conditions())
    classes = {family.FAMILY: family.__name__ for family in families() if family.__module__.startswith("binlog_format")}
    unexpected = []
    for name in conditions():
        family, _, subclass = name.partition(".")
        # Several families may have a subclass of this name: the file has to name the family, or its class.
        also = {family, classes.get(family, family)} if counts[subclass] > 1 else frozenset((subclass,))
        if not any(subclass in found and also & found for found in words):
            unexpected.append(name)
    assert sorted(unexpected) == sorted(UNTESTED)
