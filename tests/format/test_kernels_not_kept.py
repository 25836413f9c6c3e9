"""Without a folder for compiled kernels everything works: they are compiled in memory; one line tells the remedy."""

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
from tests.corpus import SERVER_CASES

if TYPE_CHECKING:
    from collections.abc import Callable

ADVICE = "set NUMBA_CACHE_DIR to a folder that can be written"
NOBODY = 65534
REPO = Path(__file__).parents[2]


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
