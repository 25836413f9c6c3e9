"""Servers for tables in S3: `ObjectStore`, an Iceberg `RestCatalog`, and both for the demo, `LakeServers`.

They are s3proxy, on a folder of its own, and Iceberg's own servlet over SQLite, on 127.0.0.1 alone.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec.structs import replace

from binlog_lab.demo.proof.targets import reading_code
from binlog_lab.demo.servers.fetch import REST_CATALOG, S3PROXY, fetch, require_fetched
from binlog_lab.demo.servers.java_server import JavaServer, free_ports
from binlog_streaming.settings import Sink, TableFormat

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from binlog_lab.demo.view import DemoView


BUCKET = "lake"
_KEY, _SECRET = "demo", "known-to-the-demo"
_STORE_READY = re.compile(r"Started .*Server@")


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
        super().__init__("s3proxy", ["-jar", str(jar), "--properties", str(file)], _STORE_READY)

    def options(self, port: int | None = None) -> dict[str, str]:
        """`sink.storage` for it, or for a proxy before it."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }


_CATALOG_READY = re.compile(r"^listening on (\d+)$", re.MULTILINE)


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
        super().__init__("the REST catalog", command, _CATALOG_READY)

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


_DIRECTORY = f"s3://{BUCKET}/tables"


class LakeServers:
    """The servers, while it is entered.

    Args:
        directory: The demo's; what the servers keep is in folders there.

    Attributes:
        tables: Folder in which the files of the tables are.

    Raises:
        DemoError: `NO_SERVER`.
    """

    def __init__(self, directory: Path, sink: TableFormat) -> None:
        self._directory = directory
        self._store = ObjectStore(directory / "s3")
        self._catalog = None
        if sink is TableFormat.ICEBERG:
            self._catalog = RestCatalog(directory / "catalog", self._store)
        self.tables = self._store.bucket / "tables"

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._store)
            if self._catalog is not None:
                stack.enter_context(self._catalog)
            self._entered = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.close()

    def sink(self, sink: Sink) -> Sink:
        """The sink of a job, with its tables here."""
        if self._catalog is None:
            return replace(sink, directory=_DIRECTORY, storage=self._store.options())
        return replace(sink, directory=_DIRECTORY, catalog=self._catalog.settings())

    def reading_code(self, uri: str) -> list[str]:
        """Lines of Python that read the table at *uri* into the name `table`, when the servers have ended."""
        path = uri.removeprefix(f"{_DIRECTORY}/")
        if self._catalog is None:  # the server has kept each object as a file
            return reading_code(Sink(directory=str(self.tables)), str(self.tables / path))
        return [
            "from pathlib import Path",
            "from pyiceberg.catalog import load_catalog",
            "from binlog_lab.demo.servers.lake_servers import ObjectStore, RestCatalog",
            f'directory = Path("{self._directory}")',
            'with ObjectStore(directory / "s3") as store, RestCatalog(directory / "catalog", store) as rest:',
            f'    found = load_catalog("demo", **rest.settings()).load_table("{path.replace("/", ".")}")',
            "    table = found.scan().to_arrow()",
        ]


def fetch_servers(sink: TableFormat, view: DemoView) -> None:
    """Fetch what the servers are made of, once. Raises `DemoError`: `NO_SERVER`."""
    fetch(S3PROXY, view)
    if sink is TableFormat.ICEBERG:
        fetch(REST_CATALOG, view)
