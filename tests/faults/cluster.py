"""A standalone Spark cluster on this machine: `Cluster` is a master and two workers, each a process of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from binlog_lab.demo.processes import kill_family

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

WORKERS = 2
_SPARK = Path(pyspark.__file__).parent


class Cluster:
    """The cluster, while it is entered; it listens on 127.0.0.1 alone."""

    url: str

    def __init__(self, folder: Path) -> None:
        if shutil.which("java") is None:
            pytest.skip("there is no Java: a Spark cluster needs it")
        self._folder = folder
        self._stack = ExitStack()
        self._workers: list[_Daemon] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            arguments = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            master = stack.enter_context(_Daemon("master.Master", arguments))
            self.url = master.wait_for(r"Starting Spark master at (\S+)")[1]
            for number in range(WORKERS):
                place = ("--work-dir", str(self._folder / f"worker-{number}"), "--cores", "1", "--memory", "1g")
                worker = stack.enter_context(_Daemon("worker.Worker", (*arguments, *place, self.url)))
                worker.wait_for("Successfully registered with master")
                self._workers.append(worker)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def kill_worker(self, number: int) -> int:
        """SIGKILL to a worker, its executors and their Python processes; how many there were."""
        return self._workers[number].kill()


class _Daemon:
    # One of Spark's, in a session of its own; within `with`.
    def __init__(self, name: str, arguments: tuple[str, ...]) -> None:
        self._name = name
        self._process = subprocess.Popen(
            [str(_SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"SPARK_HOME": str(_SPARK), "SPARK_LOCAL_IP": "127.0.0.1"},
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._lines = self._process.stdout
        self._reading = threading.Thread(target=self._lines.read, daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if self._reading.ident is not None:
            self._reading.join()
        self._lines.close()

    def wait_for(self, pattern: str) -> re.Match[str]:
        said = []
        for line in self._lines:
            said.append(line)
            if found := re.search(pattern, line):
                self._reading.start()  # what it says later has to be read too, or it would wait
                return found
        raise AssertionError(f"{self._name} has ended: {''.join(said)}")

    def kill(self) -> int:
        count = 0 if self._process.poll() is not None else kill_family(self._process.pid)
        self._process.wait()
        return count
