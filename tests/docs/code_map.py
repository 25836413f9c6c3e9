"""Folders in `docs/map.md`, from what their `__init__` modules state: `python -m tests.docs.code_map`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tests.docs.markdown import REPO
from tests.tidy.test_tidy import ROOT_PACKAGES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE: Path = REPO / "docs" / "map.md"
BEGIN = "<!-- Made by `python -m tests.docs.code_map` from the `__init__` modules. -->\n"
END = "<!-- end -->\n"


def folders_text() -> str:
    """A table for each package: its folders, and what each is responsible for."""
    parts = []
    for root, package in ROOT_PACKAGES.items():
        rows = "".join(f"| {folder} | {about} |\n" for folder, about in _folders(REPO / root / package))
        parts.append(f"### `{root}/{package}`\n\n| folder | what is in it |\n|---|---|\n{rows}")
    return "\n".join(parts)


def _folders(package: Path) -> Iterator[tuple[str, str]]:
    for module in sorted(package.rglob("__init__.py")):
        about = ast.get_docstring(ast.parse(module.read_text())) or ""
        folder = module.parent.relative_to(package)
        yield ("(beside the folders)" if module.parent == package else f"`{folder}`"), about.partition("\n\n")[0]


def page_text(page: str) -> str:
    """The page, with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{folders_text()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page_text(PAGE.read_text()))
