"""What is kept of compiled kernels is of the program as it is now, whichever of its files an update changed.

Without a folder for compiled kernels everything works: they are compiled in memory; one line tells the remedy.
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numba
import pytest
from numba.core import caching

from binlog_format import kernels
from binlog_format.kernel_cache import stamp_of
from binlog_format.kernels import kernel
from tests.corpus import SERVER_CASES
from tests.docs.markdown import REPO

if TYPE_CHECKING:
    from collections.abc import Callable
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


ADVICE = "set NUMBA_CACHE_DIR to a folder that can be written"
NOBODY = 65534


def _one_more(number: int) -> int:
    return number + 1


def _two_more(number: int) -> int:
    return number + 2


@pytest.fixture
def without_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    monkeypatch.setattr(kernels._NotKept, "is_watching", False)


@pytest.mark.usefixtures("without_folder")
def test_kernels_are_compiled_in_memory_and_that_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    compiled: list[Callable[[int], int]] = [kernels.kernel(_one_more), kernels.allocating_kernel(_two_more)]
    assert caplog.messages == []
    assert [one(40) for one in compiled] == [41, 42]
    (message,) = caplog.messages
    assert ADVICE in message


def test_other_errors_of_the_compiler_are_not_taken_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr(caching.CacheImpl, "__init__", fail)
    compiled = kernels.kernel(_one_more)
    with pytest.raises(RuntimeError, match="something else"):
        compiled(40)


def _compiled_plus() -> object:
    return numba.njit(_one_more)


@kernels.compiled_as(_compiled_plus)
def _plus(number: int) -> int:
    return number + 1


def _three_more(number: int) -> int:
    return _plus(number) + 2


@pytest.mark.usefixtures("without_folder")
def test_compiled_code_in_the_place_of_a_function_stays_as_long_as_it() -> None:
    """Numba's types hold what they are of weakly."""
    assert isinstance(_plus, kernels._Substituted)
    assert _plus._numba_type_ is not None
    gc.collect()
    assert kernels.kernel(_three_more)(39) == 42


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can become a user without a folder")
@pytest.mark.thorough_where("no HOME")
@pytest.mark.parametrize("home", [{}, {"HOME": "/nowhere"}], ids=["no HOME", "HOME is not there"])
def test_a_user_who_can_write_nowhere_runs_commands(home: dict[str, str]) -> None:
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("setpriv is not installed")
    paths = os.pathsep.join(map(str, (REPO / "format", REPO / "connector", REPO / "streaming")))
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", **home}
    become = [setpriv, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    if subprocess.run([*become, sys.executable, "-c", ""], env=environment, cwd="/", check=False).returncode:
        pytest.skip("this Python is not for other users")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        code = "import sys; from binlog_streaming.cli import main; sys.argv[0] = 'binlog-stream'; main()"
        command = [*become, sys.executable, "-c", code, *arguments]
        return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)

    for arguments in (["--version"], ["--help"], ["doctor"]):
        done = run(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
    done = run("files", str(SERVER_CASES / "mariadb-10.11" / "oltp_small"))
    assert done.returncode == 0, done.stderr
    assert "mysql-bin.000001" in done.stdout
    assert done.stderr.count(ADVICE) == len(done.stderr.splitlines()) == 1
