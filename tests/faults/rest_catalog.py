"""A real Iceberg REST catalog for tests: `RestCatalog`, Iceberg's own test servlet on 127.0.0.1, with SQLite below it.

`make servers` fetches its jars from Maven Central and compiles `rest/RestCatalog.java`.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from tests.faults.object_store import ObjectStore

CLASSES = Path(__file__).parents[2] / ".venv" / "rest-catalog"
_READY = "listening on "


class RestCatalog:
    """The server, while it is entered.

    Attributes:
        port: TCP port on 127.0.0.1.

    Args:
        folder: Of its own; what it knows of tables is there.
        store: Where it keeps the metadata of tables at `s3://`; None: there are none.
    """

    port: int

    def __init__(self, folder: Path, store: ObjectStore | None = None) -> None:
        if not (CLASSES / "RestCatalog.class").exists() or shutil.which("java") is None:
            pytest.skip("there is no REST catalog or no Java: `make servers` fetches them")
        self._properties = {"uri": f"jdbc:sqlite:{folder}/catalog.db", "warehouse": str(folder)}
        self._files: dict[str, str] = {}
        if store is not None:
            options = store.options()
            self._files = {
                "s3.endpoint": options["AWS_ENDPOINT_URL"],
                "s3.access-key-id": options["AWS_ACCESS_KEY_ID"],
                "s3.secret-access-key": options["AWS_SECRET_ACCESS_KEY"],
            }
            self._properties |= self._files | {
                "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
                "s3.path-style-access": "true",
                "client.region": options["AWS_REGION"],
            }
            self._files["s3.region"] = options["AWS_REGION"]

    def __enter__(self) -> Self:
        properties = [f"{name}={value}" for name, value in self._properties.items()]
        command = ["java", "-Xmx256m", "-cp", f"{CLASSES}:{CLASSES}/*", "RestCatalog", *properties]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(_READY):
                self.port = int(line.removeprefix(_READY))
                break
        assert self._process.poll() is None, "the REST catalog has ended"
        self._reading = threading.Thread(target=self._process.stdout.read, daemon=True)
        self._reading.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reading.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def settings(self, port: int | None = None) -> dict[str, str]:
        """`sink.catalog` for it, or for a proxy before it."""
        return {"type": "rest", "uri": f"http://127.0.0.1:{port or self.port}", **self._files}
