"""The kernels mean the same without the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.format.classic.logs import OLTP_SMALL, file_of, groups_of, open_classic, raw_events

REPO = Path(__file__).resolve().parents[3]
SCRIPT = """
import hashlib, sys
from pathlib import Path
from tests.format.classic.logs import groups_of, open_classic
for size in (100, 4096):
    for group in groups_of(open_classic(Path(sys.argv[1]), block_size=size).blocks()):
        print(group.gtid, group.position, hashlib.sha256(b"".join(group.events)).hexdigest())
"""


def test_groups_are_the_same_without_the_compiler(tmp_path: Path) -> None:
    events = raw_events((OLTP_SMALL / "mysql-bin.000001").read_bytes())
    (tmp_path / "bin.000001").write_bytes(file_of(events[:60]))
    outputs = []
    for disable in ("0", "1"):
        environment = {**os.environ, "NUMBA_DISABLE_JIT": disable}
        result = subprocess.run(
            [sys.executable, "-c", SCRIPT, tmp_path],
            cwd=REPO,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        outputs.append(result.stdout)
    assert outputs[0] == outputs[1]
    assert len(outputs[0].splitlines()) == 2 * len(groups_of(open_classic(tmp_path).blocks()))
