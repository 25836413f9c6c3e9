"""Containers, where an engine answers: `engine()`, `require_engine()`, `ContainerProcess`."""

from __future__ import annotations

import functools
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NO_ENGINE = "no container engine answers (docker info)"


@functools.cache
def engine() -> Any | None:
    """The client of the engine; None: none answers."""
    program = shutil.which("docker")
    if program is None or subprocess.run([program, "info"], capture_output=True, check=False).returncode != 0:
        return None
    import docker

    return docker.from_env()


def require_engine() -> Any:
    """The same; a test without one is skipped."""
    client = engine()
    if client is None:
        pytest.skip(NO_ENGINE)
    return client


class ContainerProcess:
    """A program in a container, on the network of this machine, used as a `Popen`.

    Args:
        command: What is run, in place of the image's own.
        folder: It sees this folder, at the same path, as the same user.
    """

    def __init__(self, image: str, command: Sequence[str], folder: Path, user: int) -> None:
        client = engine()
        assert client is not None
        self._container = client.containers.run(
            image,
            list(command[1:]),
            entrypoint=command[0],
            detach=True,
            network_mode="host",
            user=str(user),
            volumes={str(folder): {"bind": str(folder), "mode": "rw"}},
        )

    def poll(self) -> int | None:
        """Exit status; None: it runs."""
        self._container.reload()
        state = self._container.attrs["State"]
        return None if state["Status"] in ("created", "running", "paused") else int(state["ExitCode"])

    def send_signal(self, number: signal.Signals) -> None:
        """SIGSTOP and SIGCONT freeze it and let it go on."""
        if number is signal.SIGSTOP:
            self._container.pause()
        elif number is signal.SIGCONT:
            self._container.unpause()
        else:
            self._container.kill(number.name)

    def kill(self) -> None:
        """SIGKILL."""
        if self.poll() is None:
            self._container.kill()

    def wait(self) -> int:
        """Wait for its end, and remove it; exit status."""
        return self.ended()[0]

    def ended(self) -> tuple[int, str]:
        """The same, and what it has printed."""
        status = int(self._container.wait()["StatusCode"])
        said = self._container.logs().decode(errors="replace")
        self._container.remove()
        return status, said
