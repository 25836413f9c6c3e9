"""An Iceberg REST catalog on this machine: `RestCatalog`, Iceberg's own servlet on 127.0.0.1 alone, over SQLite."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from binlog_lab.demo.servers.fetch import REST_CATALOG, require_fetched
from binlog_lab.demo.servers.java_server import JavaServer
from binlog_lab.demo.servers.object_store import BUCKET

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.servers.object_store import ObjectStore

_READY = re.compile(r"^listening on (\d+)$", re.MULTILINE)


class RestCatalog(JavaServer):
    """The server, while it is entered.

    Args:
        folder: Of its own; what it knows of tables is there, and the next one knows it too.
        store: Where the files of tables are at `s3://`; None: they are in folders.

    Raises:
        DemoError: `NO_SERVER`.
    """

    def __init__(self, folder: Path, store: ObjectStore | None = None) -> None:
        classes = require_fetched(REST_CATALOG).parent
        folder.mkdir(parents=True, exist_ok=True)
        properties = {"uri": f"jdbc:sqlite:{folder}/catalog.db", "warehouse": str(folder)}
        self._files = {} if store is None else file_settings(store)
        if store is not None:
            properties |= self._files | {
                "warehouse": f"s3://{BUCKET}",
                "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
                "s3.path-style-access": "true",
                "client.region": self._files["s3.region"],
            }
        command = ["-Xmx256m", "-cp", f"{classes}:{classes}/*", REST_CATALOG.program]
        command += [f"{name}={value}" for name, value in properties.items()]
        super().__init__("the REST catalog", command, _READY)

    @property
    def port(self) -> int:
        """TCP port on 127.0.0.1."""
        return int(self._answer[1])

    def settings(self, port: int | None = None) -> dict[str, str]:
        """`sink.catalog` for it, or for a proxy before it."""
        return {"type": "rest", "uri": f"http://127.0.0.1:{port or self.port}", **self._files}


def file_settings(store: ObjectStore) -> dict[str, str]:
    """Access to the files, as Iceberg's programs take it."""
    options = store.options()
    return {
        "s3.endpoint": options["AWS_ENDPOINT_URL"],
        "s3.access-key-id": options["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": options["AWS_SECRET_ACCESS_KEY"],
        "s3.region": options["AWS_REGION"],
    }
