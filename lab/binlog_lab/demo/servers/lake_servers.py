"""The demo's tables in S3: `LakeServers`, an S3 server and, for Iceberg, a REST catalog."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec.structs import replace

from binlog_lab.demo.proof.targets import reading_code
from binlog_lab.demo.servers.fetch import REST_CATALOG, S3PROXY, fetch
from binlog_lab.demo.servers.object_store import BUCKET, ObjectStore
from binlog_lab.demo.servers.rest_catalog import RestCatalog
from binlog_streaming.settings import Sink, TableFormat

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from binlog_lab.demo.view import DemoView

_DIRECTORY = f"s3://{BUCKET}/tables"


class LakeServers:
    """The servers, while it is entered.

    Args:
        directory: The demo's; what the servers keep is in folders there.
        sink: Kind of the tables.

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
            "from binlog_lab.demo.servers.object_store import ObjectStore",
            "from binlog_lab.demo.servers.rest_catalog import RestCatalog",
            f'directory = Path("{self._directory}")',
            'with ObjectStore(directory / "s3") as store, RestCatalog(directory / "catalog", store) as rest:',
            f'    found = load_catalog("demo", **rest.settings()).load_table("{path.replace("/", ".")}")',
            "    table = found.scan().to_arrow()",
        ]


def fetch_servers(sink: TableFormat, view: DemoView) -> None:
    """Fetch what the servers are made of, once.

    Raises:
        DemoError: `NO_SERVER`.
    """
    fetch(S3PROXY, view)
    if sink is TableFormat.ICEBERG:
        fetch(REST_CATALOG, view)
