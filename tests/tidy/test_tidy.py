"""Properties of the source tree itself: a house rule that no test checks is a wish."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
ROOT_PACKAGES = {
    "format": "binlog_format",
    "connector": "binlog_connector",
    "streaming": "binlog_streaming",
    "lab": "binlog_lab",
}
# A package may import itself, what stands to its left, and the listed outside packages.
FORMAT_LIBRARIES = {"numpy", "numba", "llvmlite", "pyarrow", "crc32c", "zstandard"}
CONNECTOR_LIBRARIES = {
    "numpy",
    "pyarrow",
    "confluent_kafka",
    "crc32c",
    "kafka",
    "msgspec",
    "opentelemetry",
    "prometheus_client",
    "pyspark",
    "watchdog",
}
STREAMING_LIBRARIES = {
    "numpy",
    "pyarrow",
    "fastavro",
    "kafka",
    "msgspec",
    "pyspark",
    "py4j",
    "deltalake",
    "obstore",
    "pyiceberg",
    "sqlalchemy",
    "typer",
    "rich",
    "psutil",
    "pymysql",
    "matplotlib",
    "packaging",
    "starlette",
    "uvicorn",
    "openlineage",
}
LAB_LIBRARIES = FORMAT_LIBRARIES | STREAMING_LIBRARIES
ALLOWED_IMPORTS = {
    "binlog_format": {"binlog_format"} | FORMAT_LIBRARIES,
    "binlog_connector": {"binlog_format", "binlog_connector"} | CONNECTOR_LIBRARIES,
    "binlog_streaming": {"binlog_format", "binlog_connector", "binlog_streaming"} | STREAMING_LIBRARIES,
    "binlog_lab": {"binlog_format", "binlog_connector", "binlog_streaming", "binlog_lab"} | LAB_LIBRARIES,
}
# Spark finds its data source in a top-level module; it stands beside the package in its root.
TOP_LEVEL_MODULES = {"connector": {"pyspark_binlog_stream.py"}}
FOLDER_MODULES_MAX = 20
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
FILE_SIZE_MAX = 1_200_000  # the largest log of a real server in tests/data
# On-disk numbers and struct formats have one home in each format.
LAYOUT_ONLY = re.compile(r"\bstruct\.(Struct|unpack|unpack_from|pack|pack_into|calcsize)\b")

SOURCES = sorted(p for root in ROOT_PACKAGES for p in (REPO / root).rglob("*.py"))
FORMAT_SOURCES = sorted((REPO / "format").rglob("*.py"))
_OF_ONE_FORMAT = ("cli/logs", "page_map")
ABOVE_FORMATS = [
    path
    for path in SOURCES
    if path not in FORMAT_SOURCES
    and not path.is_relative_to(REPO / "lab")
    and not any(path.is_relative_to(REPO / "streaming/binlog_streaming" / part) for part in _OF_ONE_FORMAT)
]


def _name(path: Path) -> str:
    return str(path.relative_to(REPO))


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """The syntax of a module, for all tests that look at it."""
    return ast.parse(path.read_text())


def _imports(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("root", ROOT_PACKAGES)
def test_root_holds_exactly_one_import_package(root: str) -> None:
    python = {p.relative_to(REPO / root).parts[0] for p in (REPO / root).rglob("*.py")}
    assert python - TOP_LEVEL_MODULES.get(root, set()) == {ROOT_PACKAGES[root]}


def test_folders_are_small() -> None:
    """A folder is one idea; what it has to say fits on a screen."""
    tracked = subprocess.run(["git", "ls-files", "-z", "*.py"], cwd=REPO, check=True, capture_output=True, text=True)
    counts = Counter(name.rpartition("/")[0] for name in tracked.stdout.split("\0") if name)
    assert {folder: count for folder, count in counts.items() if count > FOLDER_MODULES_MAX} == {}


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_module_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MODULE_LINES_MAX


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_module_opens_with_a_docstring(path: Path) -> None:
    assert ast.get_docstring(tree_of(path))


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_functions_are_short(path: Path) -> None:
    long = {
        node.name: node.end_lineno - node.lineno + 1
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
    }
    assert {name: lines for name, lines in long.items() if lines > FUNCTION_LINES_MAX} == {}


def test_names_of_classes_are_unique() -> None:
    """A name means one thing: who finds it by `grep` has found it."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in SOURCES:
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(_name(path))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_imports_point_one_way(path: Path) -> None:
    root = path.relative_to(REPO).parts[0]
    package = ROOT_PACKAGES[root]
    outside = _imports(tree_of(path)) - sys.stdlib_module_names
    assert outside <= ALLOWED_IMPORTS[package]


@pytest.mark.parametrize("path", ABOVE_FORMATS, ids=_name)
def test_what_follows_and_writes_knows_of_no_format(path: Path) -> None:
    """A format is a folder and a line in `opening.py`; only commands that show one format's own things know it.

    Of logs of events `event_log` has the values that come from them, `view` their rows, `event_filter` chooses them.
    """
    known = r"binlog_format\.(?:innodb|classic|structured(?!\.(?:event_log|event_filter|view)\b))\b"
    assert re.findall(known, path.read_text()) == []


@pytest.mark.parametrize("path", FORMAT_SOURCES, ids=_name)
def test_only_layout_modules_declare_what_is_on_disk(path: Path) -> None:
    if not path.stem.endswith("layout"):
        assert LAYOUT_ONLY.findall(path.read_text()) == []


def test_no_exception_is_swallowed() -> None:
    """`except: pass` hides the third outcome; `contextlib.suppress` names what it expects."""
    swallowed = [
        f"{_name(path)}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ExceptHandler) and len(node.body) == 1 and isinstance(node.body[0], ast.Pass)
    ]
    assert swallowed == []


def test_committed_files_are_small() -> None:
    """Data sets and results of runs do not belong into the repository."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, check=True, capture_output=True).stdout.decode()
    large = {name: (REPO / name).stat().st_size for name in listing.split("\0") if name and (REPO / name).exists()}
    assert {name: size for name, size in large.items() if size > FILE_SIZE_MAX} == {}


def test_numbers_of_examples_follow_the_profile() -> None:
    """`max_examples=examples(...)` (`tests/chance.py`): few that are the same in each run, or many at random."""
    fixed = [
        f"{_name(path)}:{number}"
        for path in sorted((REPO / "tests").rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if re.search(r"max_examples=\d", line) and path.name != "chance.py"
    ]
    assert fixed == []


def test_faults_stand_in_one_place() -> None:
    """What stands in for the system, its clock, or the end of a process is in `tests/faults`, once."""
    names = re.compile(r"^ *class (\w*Os|\w*Clock|\w*Killed|Kill|Cut\w*|Crashed)\b", re.MULTILINE)
    sources = sorted((REPO / "tests").rglob("*.py"))
    elsewhere = {_name(path): names.findall(path.read_text()) for path in sources if path.parent.name != "faults"}
    assert {name: found for name, found in elsewhere.items() if found} == {}


def test_servers_of_tests_are_made_in_one_place() -> None:
    """Where none is installed a test is skipped there; one that makes its own would fail."""
    makes = re.compile(r"\bMariaDbServer\(")
    others = [path for path in (REPO / "tests").rglob("*.py") if path != REPO / "tests/servers.py"]
    found = [path for path in others if makes.search(path.read_text())]
    assert found == []
