"""An S3 server on this machine: `ObjectStore`; it is s3proxy, on a folder of its own, on 127.0.0.1 alone."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_streaming.demo.failures import DemoError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

JAR = Path(__file__).resolve().parents[3] / ".venv" / "s3proxy.jar"
"""`make servers` fetches it, from Maven Central."""
BUCKET = "lake"
_KEY, _SECRET = "key", "secret"


class ObjectStore:
    """The server, while it is entered.

    Args:
        folder: Of its own; what it stores is there.

    Attributes:
        port: TCP port on 127.0.0.1.
        bucket: Folder in which the objects of `BUCKET` are, as files.

    Raises:
        DemoError: `NO_OBJECT_STORE`.
    """

    def __init__(self, folder: Path) -> None:
        if not JAR.exists() or shutil.which("java") is None:
            raise DemoError("NO_OBJECT_STORE", "there is no s3proxy or no Java", hint="`make servers` fetches them")
        self.port = _free_port()
        self.bucket = folder / "data" / BUCKET
        self._folder = folder
        self.bucket.mkdir(parents=True)
        settings = {
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": _KEY,
            "s3proxy.credential": _SECRET,
            "s3proxy.endpoint": f"http://127.0.0.1:{self.port}",
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(folder / "data"),
        }
        (folder / "s3proxy.conf").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def __enter__(self) -> Self:
        command = ["java", "-jar", str(JAR), "--properties", str(self._folder / "s3proxy.conf")]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self._process.stdout is not None
        # It says what it does line by line; what comes later has to be read too, or it would wait.
        for line in self._process.stdout:
            if re.search(r"Started .*Server@", line):
                break
        self._reading = threading.Thread(target=self._process.stdout.read, daemon=True)
        self._reading.start()
        if self._process.poll() is not None:
            raise DemoError("PROCESS_FAILED", f"s3proxy: exit status {self._process.returncode}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reading.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def options(self, port: int | None = None) -> dict[str, str]:
        """`sink.storage` for it, or for a proxy before it."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port
