"""`docs/how-to/develop/`: each page is done as it is written, on a copy of the code; and what pages name is there.

A block `diff` is a change of files: `--- PATH`, lines as a unified diff has them, `@@` between two places. A block
`python` that begins with `# PATH` is a new file; another one is a program that runs when all changes are made.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.docs.markdown import REPO, code_blocks, table_rows

if TYPE_CHECKING:
    from pathlib import Path

PAGES = sorted(path.relative_to(REPO).as_posix() for path in (REPO / "docs/how-to/develop").glob("*.md"))
ROOTS = ("format", "connector", "streaming", "lab")
TABLE_FORMAT_PAGE = "docs/how-to/develop/add-a-table-format.md"
LOG_DIRECTORY = "/var/lib/mysql"
LOG = REPO / "tests/data/servers/mariadb-10.11/oltp_small"
_NEW_FILE = re.compile(r"# ([\w/]+\.py)\n")
_NAMED_FILE = re.compile(
    r"`((?:[\w-]+/)*[\w-]+\.(?:py|md|sql|toml))(?:: (\w+))?`|`((?:format|connector|streaming|lab|tests)/[\w/]+)`"
)


def changed(text: str, hunk: str) -> str:
    """*text* with the lines of one place of a diff in it.

    Raises:
        AssertionError: Its old lines are not there, or several times: the page is not true any more.
    """
    lines = [line or " " for line in hunk.splitlines()]
    assert {line[0] for line in lines} <= {" ", "-", "+"}, hunk
    old, new = ("".join(f"{line[1:]}\n" for line in lines if line[0] in kinds) for kinds in (" -", " +"))
    assert old != new
    places = [found.start() for found in re.finditer(f"^{re.escape(old)}", text, re.MULTILINE)]
    assert len(places) == 1, f"these lines are not there once:\n{old}"
    return text[: places[0]] + new + text[places[0] + len(old) :]


def apply_diff(diff: str, folder: Path) -> None:
    """Make the changes of a block in the files below *folder*."""
    for part in diff.split("--- ")[1:]:
        path, _, hunks = part.partition("\n")
        text = (folder / path).read_text()
        for hunk in hunks.split("@@\n"):
            text = changed(text, hunk)
        (folder / path).write_text(text)


_OF_KAFKA_PYTHON = [f"-Wignore:{name} is deprecated:DeprecationWarning" for name in ("open_text", "read_text")]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_page_is_done_as_it_is_written(page: str, tmp_path: Path) -> None:
    code = tmp_path / "code"
    for root in (*ROOTS, "docs"):
        shutil.copytree(REPO / root, code / root, ignore=shutil.ignore_patterns("__pycache__"))
    for block in code_blocks(page, "diff"):
        apply_diff(block.text, code)
    blocks = code_blocks(page, "python")
    programs = [block for block in blocks if not _NEW_FILE.match(block.text)]
    for block in blocks:
        if named := _NEW_FILE.match(block.text):
            assert not (code / named[1]).exists()
            (code / named[1]).write_text(block.text[named.end() :])
    assert programs, page
    # Nothing is compiled: it would be for this copy alone.
    roots = os.pathsep.join(str(code / root) for root in ROOTS)
    environment = os.environ | {"PYTHONPATH": roots, "NUMBA_DISABLE_JIT": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    for number, block in enumerate(programs):
        folder = tmp_path / f"program-{number}"
        folder.mkdir()
        text = block.text.replace(LOG_DIRECTORY, str(LOG)) + "\nimport binlog_format; print(binlog_format.__file__)\n"
        command = [sys.executable, "-W", "error", *_OF_KAFKA_PYTHON, "-c", text]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), f"{block}\n{done.stderr}"
        assert done.stdout.splitlines()[-1].startswith(str(code)), "the program ran on other code"
        if LOG_DIRECTORY in block.text:
            assert '"mysql-bin.000001"' in done.stdout


def test_a_page_that_is_not_true_any_more_fails() -> None:
    with pytest.raises(AssertionError, match="are not there once"):
        changed("a = 1\nb = 2\n", " a = 1\n-b = 3\n+b = 4\n")
    with pytest.raises(AssertionError, match="are not there once"):
        changed("a = 1\na = 1\n", "-a = 1\n+a = 2\n")
    assert changed("a = 1\nb = 2\n", " a = 1\n-b = 2\n+b = 4\n") == "a = 1\nb = 4\n"


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_are_there(page: str) -> None:
    """A path may be short: `schema/catalog.py` is the one that ends so; with a name after it the file has that name."""
    made = {named[1] for block in code_blocks(page, "python") if (named := _NEW_FILE.match(block.text))}
    files = [path for path in REPO.rglob("*") if path.suffix in {".py", ".md", ".sql", ".toml"} and is_ours(path)]
    text = re.sub(r"^```.*?^```$", "", (REPO / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    wrong = []
    for path, name, folder in _NAMED_FILE.findall(text):
        if folder:
            wrong += [] if (REPO / folder).exists() else [folder]
            continue
        found = [file for file in files if f"/{file.relative_to(REPO).as_posix()}".endswith(f"/{path}")]
        here = [
            file for file in found if not name or re.search(rf"\b(?:def|class) {name}\b|^{name}\b", file.read_text())
        ]
        wrong += [] if here or path in made else [f"{path}: {name}"]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES)
def test_names_in_the_text_of_a_page_are_in_the_code(page: str) -> None:
    """Names of functions, classes and constants; what is renamed is renamed on the page."""
    text = re.sub(r"^```.*?^```$", "", (REPO / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    shown = "".join(block.text for kind in ("python", "diff") for block in code_blocks(page, kind))
    code = "".join(path.read_text() for root in (*ROOTS, "tests") for path in sorted((REPO / root).rglob("*.py")))
    words = set(re.findall(r"\w+", code + shown))
    named = set(re.findall(r"`(?:[\w/]+\.py: )?([A-Za-z_]{4,}(?:\.\w+)?)(?:\([^`]*\))?`", text))
    names = sorted(name for name in named if not name.endswith(".py"))
    assert len(names) > 3
    assert [name for name in names if not set(name.split(".")) <= words] == []


def is_ours(path: Path) -> bool:
    """Not of a virtual environment, and not built."""
    return not any(part.startswith((".", "build")) for part in path.relative_to(REPO).parts)


def test_page_names_all_who_ask_for_the_name_of_a_table_format() -> None:
    named = {row[0].strip("`") for row in table_rows(TABLE_FORMAT_PAGE, "## 3. Who asks for the name of a format")}
    asking = {
        path.relative_to(REPO).as_posix()
        for root in ("streaming", "lab")
        for path in (REPO / root).rglob("*.py")
        if re.search(r"\bTableFormat\.[A-Z]", path.read_text()) and path.name != "choices.py"  # has the names
    }
    assert named == asking
