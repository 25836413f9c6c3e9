"""Imports go one way: no circles between files, and none between the layers of a root; imports in functions count.

Imports for type checkers alone do not: they are not there when a program runs.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from tests.tidy.test_tidy import REPO, ROOT_PACKAGES, tree_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

MODULE_LINES_MIN = 60
MODULES = {
    ".".join(path.relative_to(REPO / root).with_suffix("").parts): path
    for root, package in ROOT_PACKAGES.items()
    for path in sorted((REPO / root / package).rglob("*.py"))
    if path.name != "__init__.py"
}


def _imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in _at_run_time(tree_of(path).body):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names & MODULES.keys()


def _at_run_time(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for node in nodes:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from _at_run_time(node.orelse)
            continue
        yield node
        yield from _at_run_time(ast.iter_child_nodes(node))


IMPORTS = {module: _imported(path) for module, path in MODULES.items()}


def _circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Some nodes that lead to each other, in order; empty: there are none."""
    done: set[str] = set()

    def walk(node: str, path: list[str]) -> list[str]:
        if node in path:
            return path[path.index(node) :]
        if node in done:
            return []
        for following in sorted(graph.get(node, ())):
            found = walk(following, [*path, node])
            if found:
                return found
        done.add(node)
        return []

    return next((found for node in sorted(graph) if (found := walk(node, []))), [])


def test_files_have_no_circles() -> None:
    assert _circle(IMPORTS) == []


@pytest.mark.parametrize("package", ROOT_PACKAGES.values())
def test_layers_have_no_circles(package: str) -> None:
    """A layer is a folder of a root, with all folders in it, or the files beside these."""
    layers: dict[str, set[str]] = defaultdict(set)
    for module, imported in IMPORTS.items():
        for other in imported:
            if module.startswith(f"{package}.") and other.startswith(f"{package}.") and _layer(module) != _layer(other):
                layers[_layer(module)].add(_layer(other))
    assert _circle(layers) == []


def test_small_modules_have_two_users() -> None:
    """An idea in less than a page belongs to its one user; commands, layouts and kernels have files of their own."""
    users: dict[str, set[Path]] = defaultdict(set)
    for path in sorted(path for root in ROOT_PACKAGES for path in (REPO / root).rglob("*.py")):
        for name in MODULES.keys() & set(_mentioned(path)):
            users[name].add(path)
    dust = [
        name
        for name, path in MODULES.items()
        if len(path.read_text().splitlines()) < MODULE_LINES_MIN
        and not (path.stem.endswith(("kernels", "layout")) or "cli" in path.parts)
        and len(users[name]) < 2
    ]
    assert dust == []


def _mentioned(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _layer(module: str) -> str:
    return ".".join(module.split(".")[:-1][:2])
