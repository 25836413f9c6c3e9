"""An S3 server on this machine: `ObjectStore`; it is s3proxy, on a folder of its own, on 127.0.0.1 alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from binlog_lab.demo.servers.fetch import S3PROXY, require_fetched
from binlog_lab.demo.servers.java_server import JavaServer
from binlog_lab.demo.servers.ports import free_ports

if TYPE_CHECKING:
    from pathlib import Path

BUCKET = "lake"
_KEY, _SECRET = "demo", "known-to-the-demo"
_READY = re.compile(r"Started .*Server@")


class ObjectStore(JavaServer):
    """The server, while it is entered.

    Args:
        folder: Of its own; what it stores is there, and is served again by the next one.

    Attributes:
        port: TCP port on 127.0.0.1.
        bucket: Folder in which the objects of `BUCKET` are, as files.

    Raises:
        DemoError: `NO_SERVER`.
    """

    def __init__(self, folder: Path) -> None:
        jar = require_fetched(S3PROXY)
        (self.port,) = free_ports(1)
        self.bucket = folder / "data" / BUCKET
        self.bucket.mkdir(parents=True, exist_ok=True)
        settings = {
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": _KEY,
            "s3proxy.credential": _SECRET,
            "s3proxy.endpoint": f"http://127.0.0.1:{self.port}",
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(folder / "data"),
        }
        file = folder / "s3proxy.conf"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        super().__init__("s3proxy", ["-jar", str(jar), "--properties", str(file)], _READY)

    def options(self, port: int | None = None) -> dict[str, str]:
        """`sink.storage` for it, or for a proxy before it."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
