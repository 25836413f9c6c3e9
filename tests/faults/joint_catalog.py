"""An Iceberg REST catalog that commits several tables at once, for tests: `JointCatalog`.

Strict about the specification: unknown requirements, updates and fields are status 400, all requirements of all tables
are checked before anything changes, all tables change in one moment, and the files that a snapshot names must be there.
`history` has every state that a reader could ever see.
"""

from __future__ import annotations

import json
import threading
import uuid
from enum import StrEnum
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote, urlsplit

from pydantic import ValidationError
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import update_table_metadata
from pyiceberg.typedef import IcebergBaseModel

from tests.faults.http_receiver import HttpService

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Name = tuple[str, str]
    State = Mapping[Name, TableMetadata]

PREFIX = "lake"
TRANSACTION = "transactions/commit"
_BASE = "/v1/{prefix}"
_NAMESPACE = f"{_BASE}/namespaces/{{namespace}}"
_TABLE = f"{_NAMESPACE}/tables/{{table}}"
_ENDPOINTS = (
    f"GET {_BASE}/namespaces",
    f"POST {_BASE}/namespaces",
    f"GET {_NAMESPACE}",
    f"GET {_NAMESPACE}/tables",
    f"POST {_NAMESPACE}/tables",
    f"GET {_TABLE}",
    f"POST {_TABLE}",
    f"DELETE {_TABLE}",
)


class Fault(StrEnum):
    """Fate of a request for several tables."""

    LOST_REPLY = "made, no reply"
    LOST_REQUEST = "not made, no reply"
    LATE = "no reply, made when the next one comes"
    MADE_500 = "made, status 500"
    MADE_504 = "made, status 504"
    MADE_200 = "made, a proxy's page with status 200"
    NOT_MADE_500 = "not made, status 500"
    NOT_MADE_502 = "not made, status 502"
    NOT_MADE_503 = "not made, status 503"
    REFUSED = "not made, status 409 for no reason"
    FORBIDDEN = "not made, status 403"
    HALF = "one table made, status 500: no catalog may do that"

    @property
    def is_made(self) -> bool:
        """True if the tables change."""
        return self.value.startswith("made")

    @property
    def status(self) -> int | None:
        """Of the reply; None: there is none."""
        if self is Fault.REFUSED:
            return 409
        words = self.value.split(" status ")
        return int(words[1][:3]) if len(words) > 1 else None


class _Refused(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class JointCatalog(HttpService):
    """The server, while it is entered.

    Args:
        is_able: It states that it commits several tables at once, and does so.

    Attributes:
        history: The tables after each change, oldest first.
        faults: Fates of the next requests for several tables.
        before: Called once, when the next such request has come.
        transactions: Number of tables in each such request.
    """

    def __init__(self, *, is_able: bool = True) -> None:
        self.is_able = is_able
        self.history: list[State] = [{}]
        self.faults: list[Fault] = []
        self.before: Callable[[], None] | None = None
        self.transactions: list[int] = []
        self.commits = 0
        self.namespaces: set[str] = set()
        self._replies: dict[int, bytes] = {}
        self._late: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        super().__init__(type("Handler", (_Handler,), {"catalog": self}))

    @property
    def tables(self) -> State:
        """The tables as they are."""
        return self.history[-1]

    def settings(self) -> dict[str, str]:
        """`sink.catalog` for it."""
        return {"type": "rest", "uri": self.url}

    def config(self) -> dict[str, Any]:
        """What it is, and what it can do."""
        able = (f"POST {_BASE}/{TRANSACTION}",) if self.is_able else ()
        return {"defaults": {}, "overrides": {"prefix": PREFIX}, "endpoints": [*_ENDPOINTS, *able]}

    def create(self, namespace: str, body: dict[str, Any]) -> bytes:
        """A new table."""
        asked = CreateTableRequest.model_validate(body)
        name = (namespace, asked.name)
        if namespace not in self.namespaces:
            raise _Refused(404, f"no such namespace: {namespace}")
        if asked.stage_create or asked.location is None:
            raise _Refused(400, "not done here")
        metadata = new_table_metadata(
            asked.table_schema,
            asked.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            asked.write_order or UNSORTED_SORT_ORDER,
            asked.location,
            dict(asked.properties),
        )
        if metadata.format_version > 2:
            metadata = metadata.model_copy(update={"next_row_id": 0})  # the library leaves it out
        with self._lock:
            if name in self.tables:
                raise _Refused(409, f"table {name} exists")
            self.history.append({**self.tables, name: metadata})
        return self.loaded(name)

    def loaded(self, name: Name) -> bytes:
        """A table as who loads it gets it; its metadata are in a file, too."""
        metadata = self.tables.get(name)
        if metadata is None:
            raise _Refused(404, f"no such table: {name}")
        with self._lock:
            if id(metadata) not in self._replies:  # the history keeps them all
                file = Path(metadata.location, "metadata", f"{uuid.uuid4()}.metadata.json")
                file.parent.mkdir(parents=True, exist_ok=True)
                text = IcebergBaseModel.model_dump_json(metadata)  # that of version 3 refuses
                file.write_text(text)
                place = json.dumps(str(file))
                self._replies[id(metadata)] = (
                    f'{{"metadata-location":{place},"metadata":{text},"config":{{}}}}'.encode()
                )
            return self._replies[id(metadata)]

    def drop(self, name: Name) -> None:
        """The table goes, its files stay."""
        with self._lock:
            self.history.append({key: table for key, table in self.tables.items() if key != name})

    def commit(self, name: Name, body: dict[str, Any]) -> bytes:
        """A commit of one table."""
        identifier = {"namespace": name[0].split("."), "name": name[1]}
        if body.setdefault("identifier", identifier) != identifier:
            raise _Refused(400, "another table in the body")
        self.commits += 1
        self._change([body])
        return self.loaded(name)

    def commit_all(self, body: dict[str, Any]) -> Fault | None:
        """A commit of several tables; returns the fate of its reply."""
        if not self.is_able:
            raise _Refused(404, "no such resource")
        if (before := self.before) is not None:
            self.before = None
            before()
        for late in self._late:
            try:
                self.commit_all_now(late)
            except (_Refused, CommitFailedException):
                continue  # who asked for it does not listen any more
        self._late.clear()
        fault = self.faults.pop(0) if self.faults else None
        if fault is Fault.LATE:
            self._late.append(body)
        if fault is Fault.HALF:
            self._change(body["table-changes"][:1])
        if fault is None or fault.is_made:
            self.commit_all_now(body)
        return fault

    def commit_all_now(self, body: dict[str, Any]) -> None:
        """Check the body, and make it."""
        changes = body.get("table-changes")
        if set(body) != {"table-changes"} or not isinstance(changes, list) or not changes:
            raise _Refused(400, "the body is not what the specification asks for")
        self._change(changes)
        self.transactions.append(len(changes))

    def _change(self, changes: Sequence[dict[str, Any]]) -> None:
        with self._lock:
            new = dict(self.tables)
            asked = [_strict(change) for change in changes]
            names = [(".".join(request.identifier.namespace.root), request.identifier.name) for request in asked]
            if len(set(names)) != len(names):
                raise _Refused(400, "a table comes twice")
            for name, request in zip(names, asked, strict=True):
                if name not in new:
                    raise _Refused(404, f"no such table: {name}")
                for requirement in request.requirements:
                    requirement.validate(new[name])
            for name, request in zip(names, asked, strict=True):
                new[name] = _updated(new[name], request)
            self.history.append(new)


def _strict(change: dict[str, Any]) -> CommitTableRequest:
    if set(change) != {"identifier", "requirements", "updates"} or not change["requirements"]:
        raise _Refused(400, f"a change with {sorted(change)}, or without requirements")
    return CommitTableRequest.model_validate(change)


def _updated(metadata: TableMetadata, request: CommitTableRequest) -> TableMetadata:
    changed = update_table_metadata(metadata, request.updates)
    for snapshot in changed.snapshots[len(metadata.snapshots) :]:
        if not Path(snapshot.manifest_list).exists():
            raise _Refused(400, f"{snapshot.manifest_list} is not there")
    current = changed.current_snapshot()
    if current is not None and current.schema_id not in {schema.schema_id for schema in changed.schemas}:
        raise _Refused(400, "a snapshot of a schema that the table does not have")
    return changed


class _Handler(BaseHTTPRequestHandler):
    catalog: ClassVar[JointCatalog]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        try:
            reply = self._answer(json.loads(body) if body else {})
        except _Refused as error:
            self._fail(error.status, str(error))
        except CommitFailedException as error:
            self._fail(409, str(error))
        except (ValidationError, ValueError, KeyError) as error:
            self._fail(400, str(error))
        else:
            if not isinstance(reply, Fault):
                self._reply(204 if reply is None else 200, reply)
            elif reply.status is None:
                self.close_connection = True
            elif reply.status == 200:
                self._reply(200, {"page": "hello"})
            else:
                self._fail(reply.status, reply.value)

    do_POST = do_DELETE = do_GET

    def _answer(self, body: dict[str, Any]) -> bytes | dict[str, Any] | Fault | None:
        catalog = self.catalog
        parts = urlsplit(self.path).path.strip("/").split("/")
        # A namespace in another one: `a\x1fb` in a path, `a.b` here.
        match self.command, [unquote(part).replace("\x1f", ".") for part in parts]:
            case "GET", ["v1", "config"]:
                return catalog.config()
            case "POST", ["v1", prefix, "transactions", "commit"] if prefix == PREFIX:
                return catalog.commit_all(body)
            case "POST", ["v1", prefix, "namespaces"] if prefix == PREFIX:
                catalog.namespaces.add(".".join(body["namespace"]))
                return body
            case "GET", ["v1", prefix, "namespaces", namespace] if prefix == PREFIX:
                if namespace not in catalog.namespaces:
                    raise _Refused(404, f"no such namespace: {namespace}")
                return {"namespace": namespace.split("."), "properties": {}}
            case "POST", ["v1", prefix, "namespaces", namespace, "tables"] if prefix == PREFIX:
                return catalog.create(namespace, body)
            case "GET", ["v1", prefix, "namespaces", namespace, "tables", table] if prefix == PREFIX:
                return catalog.loaded((namespace, table))
            case "DELETE", ["v1", prefix, "namespaces", namespace, "tables", table] if prefix == PREFIX:
                catalog.drop((namespace, table))
                return None
            case "POST", ["v1", prefix, "namespaces", namespace, "tables", table] if prefix == PREFIX:
                return catalog.commit((namespace, table), body)
        raise _Refused(404, f"no such resource: {self.path}")

    def _fail(self, status: int, reason: str) -> None:
        self._reply(status, {"error": {"message": reason, "type": "Refused", "code": status}})

    def _reply(self, status: int, content: bytes | dict[str, Any] | None) -> None:
        data = json.dumps(content).encode() if isinstance(content, dict) else content or b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nobody reads it."""
