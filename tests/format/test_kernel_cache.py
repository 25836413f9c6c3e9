"""What is kept of compiled kernels is of the program as it is now, whichever of its files an update changed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from binlog_format.kernel_cache import stamp_of
from binlog_format.kernels import kernel
from tests.docs.markdown import REPO

if TYPE_CHECKING:
    from pathlib import Path

_CALLER = """
from binlog_format.kernels import kernel
from binlog_trial.parts import ADDED, more
@kernel
def much_more(number):
    return more(number) + ADDED
"""
_PARTS = """
from binlog_format.kernels import kernel
FACTOR, ADDED = 2, 1
@kernel
def more(number):
    return number * FACTOR
"""
_SHOWN = "from binlog_trial.caller import much_more; print(much_more(10))"


def _run(folder: Path, code: str) -> str:
    environment = os.environ | {"PYTHONPATH": f"{folder}:{REPO / 'format'}", "NUMBA_CACHE_DIR": str(folder / "kept")}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "NUMBA_DISABLE_JIT": "0"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _kept(folder: Path, function: str) -> set[str]:
    return {file.name for file in (folder / "kept").rglob(f"*.{function}-*.nb[ci]")}


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("number * FACTOR", "number * FACTOR + 5", "26"),
        ("FACTOR, ADDED = 2, 1", "FACTOR, ADDED = 3, 1", "31"),
        ("FACTOR, ADDED = 2, 1", "FACTOR, ADDED = 2, 4", "24"),
    ],
    ids=["code of a kernel", "its constant", "constant of another module"],
)
def test_an_update_of_one_file_changes_kernels_of_others(tmp_path: Path, before: str, after: str, shown: str) -> None:
    package = tmp_path / "binlog_trial"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "caller.py").write_text(_CALLER)
    (package / "parts.py").write_text(_PARTS)
    assert _run(tmp_path, _SHOWN) == "21"
    first = _kept(tmp_path, "much_more")
    assert _run(tmp_path, _SHOWN) == "21"
    assert _kept(tmp_path, "much_more") == first
    (package / "parts.py").write_text(_PARTS.replace(before, after))
    assert _run(tmp_path, _SHOWN) == shown
    second = _kept(tmp_path, "much_more")
    assert len(second) == len(first) == 2  # an index and the code: what was kept before is gone
    assert not first & second


_NAMED = """
from typing import NamedTuple
from binlog_format.kernels import kernel
class NAME(NamedTuple):
    number: int
    other: int = 7
@kernel
def more(given):
    return given.number + 1
print(more(NAME(number=41)))
"""


def test_classes_of_arguments_with_other_names_or_orders_of_fields_are_compiled_anew(tmp_path: Path) -> None:
    program = tmp_path / "versions.py"

    for name, source in (
        ("Earlier", _NAMED),
        ("Later", _NAMED),
        ("Later", _NAMED),
        ("Later", _NAMED.replace("number: int\n    other: int = 7", "other: int = 7\n    number: int = 0")),
    ):
        program.write_text(source.replace("NAME", name))
        assert _run(tmp_path, "import versions") == "42"
    assert _kept(tmp_path, "more")


def test_a_constant_of_unknown_kind_is_refused() -> None:
    @kernel
    def odd() -> object:
        return _ODD

    with pytest.raises(TypeError, match="object"):
        stamp_of(odd.__wrapped__)  # type: ignore[attr-defined]


_ODD = object()
