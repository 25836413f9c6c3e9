from __future__ import annotations

import subprocess
import sys
import time

import pytest

from bench.processes import MemoryWatch, Role, cpu_seconds, resident_bytes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SIZE = 64 << 20
_BUSY = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
_LARGE = f"import sys; kept = b'x' * {SIZE}; print('there', flush=True); sys.stdin.read()"


def test_time_of_children_counts_also_when_they_have_ended() -> None:
    before = cpu_seconds()
    subprocess.run([sys.executable, "-c", _BUSY], check=True)
    after = cpu_seconds()
    assert sum(after.values()) - sum(before.values()) >= 0.45


def test_memory_of_children_is_that_of_workers() -> None:
    before = sum(resident_bytes()[Role.WORKERS])
    watch = MemoryWatch()
    with subprocess.Popen([sys.executable, "-c", _LARGE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        deadline = time.monotonic() + 30
        with watch:
            while watch.peaks[Role.DRIVER] == 0 and time.monotonic() < deadline:
                time.sleep(0.05)
        child.communicate()
    assert watch.peaks[Role.WORKERS] - before >= SIZE
    assert watch.peaks[Role.WORKERS] >= watch.largest[Role.WORKERS] >= SIZE
    assert sum(resident_bytes()[Role.WORKERS]) - before < SIZE
    assert watch.peaks[Role.DRIVER] > 0
