"""The kernels are Python too: what a script prints here, and in a process without the compiler."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from unittest.mock import patch

from tests.docs.markdown import REPO

_HEAD = "import numba; assert numba.config.DISABLE_JIT\n"


def printed_by(script: str, *arguments: object) -> tuple[str, str]:
    """What *script* prints with compiled kernels, as all tests have them, and without the compiler.

    Args:
        script: Python; a warning that something wraps around or is not a number ends it.
        arguments: Its `sys.argv[1:]`.
    """
    texts = list(map(str, arguments))
    output = io.StringIO()
    with contextlib.redirect_stdout(output), patch.object(sys, "argv", ["script", *texts]):
        exec(script, {"__name__": "script"})
    run = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", _HEAD + script, *texts],
        cwd=REPO,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return output.getvalue(), run.stdout
