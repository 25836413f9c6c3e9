"""A server that is a Java program: `JavaServer` starts it, waits until it answers, and ends it; `free_ports`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_lab.demo.failures import DemoError

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self


SMALL_WORK = "-XX:TieredStopAtLevel=1"
"""Option of Java for a server that has little to do: compiling as well as it can would take longer than the work."""

_LINES_KEPT = 5


class JavaServer:
    """The server, while it is entered.

    Args:
        name: For messages.
        arguments: Of `java`.
        ready: Is in the line that the server writes when it answers.
    """

    def __init__(self, name: str, arguments: Sequence[str], ready: re.Pattern[str]) -> None:
        self._name = name
        self._command = [find_java(name), SMALL_WORK, *arguments]
        self._ready = ready

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # Ctrl-C is for the program that started it; its job still needs the server
        )
        assert self._process.stdout is not None
        self._output = self._process.stdout
        self._answer = self._wait_until_ready()
        # It goes on to report what it does; unless somebody reads it, it would wait.
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._reading.join()
        self._output.close()

    def restart(self) -> None:
        """Kill it (SIGKILL), and start it again on what it has stored."""
        self.__exit__(None, None, None)
        self.__enter__()

    def _wait_until_ready(self) -> re.Match[str]:
        last: deque[str] = deque(maxlen=_LINES_KEPT)
        try:
            for line in self._output:
                if match := self._ready.search(line):
                    return match
                last.append(line.strip())
        except BaseException:
            self._end()
            raise
        status = self._process.wait()
        self._output.close()
        raise DemoError("PROCESS_FAILED", f"{self._name}: exit status {status}: {' | '.join(last)}")

    def _read(self) -> None:
        for _ in self._output:
            pass

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()


def find_java(purpose: str, program: str = "java") -> str:
    """Path of a program of Java: that of `JAVA_HOME`, or else on PATH.

    Args:
        purpose: What needs it, for messages.
        program: `java`, or `javac`, which not every Java has.
    """
    home = os.environ.get("JAVA_HOME")
    own = Path(home, "bin", program) if home else None
    found = str(own) if own is not None and own.exists() else shutil.which(program)
    if found is None:
        raise DemoError(
            "NO_SERVER",
            f"{purpose} needs {program}, and there is none",
            hint="On Debian or Ubuntu: apt-get install default-jdk-headless",
        )
    return found


def free_ports(count: int) -> list[int]:
    """TCP ports on 127.0.0.1 that nobody listens at, all different; whoever comes first may still take them."""
    with ExitStack() as stack:
        listening = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(listener.getsockname()[1]) for listener in listening]
