"""Commands that need a job and its server, each as a process of its own: `ServerCommand`."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Self

from binlog_lab.demo.failures import DemoError
from binlog_streaming.server.address import PASSWORD_VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer

STOP_PATIENCE_S = 15.0


class ServerCommand:
    """`binlog-stream NAME JOB.toml --server URL`; a context manager that ends it.

    Args:
        name: Of the command.
        job_file: The job.
        server: The server, which runs.
        log_file: Where its standard error goes.
        options: More options of the command.
    """

    def __init__(
        self, name: str, job_file: Path, server: MariaDbServer, *, log_file: Path, options: tuple[str, ...] = ()
    ) -> None:
        self._name = f"binlog-stream {name} {job_file.name}"
        self._log_file = log_file
        url = f"mysql://root@127.0.0.1:{server.port}/"
        program = "from binlog_streaming.cli import main; main()"
        with log_file.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program, name, str(job_file), "--server", url, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ | {PASSWORD_VARIABLE: server.password},
                start_new_session=True,  # Ctrl-C is for the demo, which then ends it
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def is_running(self) -> bool:
        """True if the server has not ended yet."""
        return self._process.poll() is None

    def result(self, *accepted: int) -> list[str]:
        """Wait for its end; the lines of its standard output.

        Args:
            accepted: Exit statuses besides 0 that are no failure.

        Raises:
            DemoError: `PROCESS_FAILED`.
        """
        output, _ = self._process.communicate()
        status = self._process.returncode
        if status and status not in accepted:
            lines = self._log_file.read_text(errors="replace").strip().splitlines()
            raise DemoError(
                "PROCESS_FAILED",
                f"{self._name}: exit status {status}: {lines[-1] if lines else 'no message'}",
                hint=f"All that it printed is in {self._log_file}",
            )
        return output.splitlines()

    def stop(self) -> None:
        """End it, if it has not ended by itself."""
        if not self.is_running():
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
