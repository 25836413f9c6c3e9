"""The documentation keeps up with the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
DOCS = sorted([*REPO.glob("*.md"), *(REPO / "docs").rglob("*.md")])
SOURCES = sorted(p for root in ("format", "connector", "streaming") for p in (REPO / root).rglob("*.py"))
LINK = re.compile(r"\]\((?!https?://)([^)#]+)(?:#[^)]*)?\)")


def _raised() -> set[str]:
    """Every condition that is made somewhere, as `FAMILY.SUBCLASS`."""
    families, made = {}, set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.ClassDef(name=name, body=body):
                    for statement in body:
                        match statement:
                            case ast.Assign(targets=[ast.Name(id="FAMILY")], value=ast.Constant(value=str(family))):
                                families[name] = family
                case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(subclass)), *_]):
                    made.add((name, subclass))
    return {f"{families[name]}.{subclass}" for name, subclass in made if name in families}


def test_operations_say_what_to_do_about_every_error() -> None:
    text = (REPO / "docs" / "operations.md").read_text()
    # A row may name several subclasses of one family: `BINLOG_X.A`, `.B`.
    documented = set()
    for line in text.splitlines():
        family = ""
        for word in re.findall(r"`([A-Z_]*\.[A-Z_]+)`", line):
            family = word.partition(".")[0] or family
            documented.add(f"{family}.{word.partition('.')[2]}")
    raised = _raised()
    assert len(raised) > 30
    assert raised - documented == set()


@pytest.mark.parametrize("path", DOCS, ids=lambda path: str(path.relative_to(REPO)))
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    missing = [target for target in LINK.findall(path.read_text()) if not (path.parent / target).exists()]
    assert missing == []
