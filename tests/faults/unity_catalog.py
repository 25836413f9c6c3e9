"""Unity Catalog for tests: `UnityServer` does what its Managed Tables Specification 1.0 says, and refuses all else.

The real server is no package of a registry. It knows each commit that it took, so that tests can ask for what only the
Delta protocol demands of writers: files are there when they are named, versions and timestamps grow, the log is
published in order and before it is said to be.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
import uuid
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from tests.faults.http_receiver import HttpService

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Body = dict[str, Any]
    Reply = tuple[int, Body]

ROOT = "/api/2.1/unity-catalog/delta/v1"
CATALOG = "main"
_BOTH = ["catalogManaged", "deletionVectors", "v2Checkpoint", "vacuumProtocolCheck"]
REQUIRED = {"reader-features": _BOTH, "writer-features": [*_BOTH, "inCommitTimestamp"]}
PROPERTIES = {
    "delta.checkpointPolicy": "v2",
    "delta.enableDeletionVectors": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.checkpoint.writeStatsAsStruct": "true",
    "delta.checkpoint.writeStatsAsJson": "true",
}
RESTRICTED = {"delta.targetFileSize", "delta.logRetentionDuration", "delta.deletedFileRetentionDuration"}
UNPUBLISHED_MAX = 10
_STAGED = re.compile(r"(\d{20})\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.json")
_TABLE = re.compile(rf"{ROOT}/catalogs/(\w+)/schemas/(\w+)/(staging-tables|tables)(?:/([^/?]+)(/credentials)?)?")
_ACTIONS = {
    "add-commit": {"commit"},
    "set-latest-backfilled-version": {"latest-published-version"},
    "set-properties": {"updates"},
    "remove-properties": {"removals"},
    "set-protocol": {"protocol"},
    "set-columns": {"columns"},
    "set-partition-columns": {"partition-columns"},
    "set-domain-metadata": {"updates"},
}
_COMMIT = {"version": int, "timestamp": int, "file-name": str, "file-size": int, "file-modification-timestamp": int}


class Refused(Exception):
    """An error of the specification."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = f"{kind}Exception"


def invalid(message: str) -> Refused:
    """What the request says cannot be."""
    return Refused(400, "InvalidParameterValue", message)


class Table:
    """A table, or a place for one.

    Attributes:
        commits: File names and timestamps of all that were ratified, by version.
        backfilled: Version up to which they are said to be published.
    """

    def __init__(self, folder: Path, place: str = "") -> None:
        self.id = str(uuid.uuid4())
        self.folder = folder / self.id
        self.location = f"{place}/{self.id}" if place else self.folder.as_uri()
        self.columns: dict[str, Any] = {}
        self.partitions: list[str] = []
        self.properties: dict[str, str] = {}
        self.protocol: dict[str, Any] = {}
        self.domains: dict[str, Any] = {}
        self.commits: dict[int, dict[str, Any]] = {}
        self.latest, self.backfilled, self.time = 0, 0, 0

    def loaded(self) -> Body:
        protocol = {"delta.minReaderVersion": "3", "delta.minWriterVersion": "7"}
        protocol |= {f"delta.feature.{name}": "supported" for name in self.protocol["writer-features"]}
        commits = [self.commits[version] for version in range(self.latest, self.backfilled, -1)]
        return {
            "metadata": {
                "etag": "1",
                "table-type": "MANAGED",
                "table-uuid": self.id,
                "location": self.location,
                "columns": self.columns,
                "partition-columns": self.partitions,
                "properties": self.properties | protocol | {"delta.lastUpdateVersion": "0"},
            },
            "commits": commits,
            "latest-table-version": self.latest,
        }

    def log(self, name: str) -> Path:
        return self.folder / "_delta_log" / name


class UnityServer(HttpService):
    """The server, while it is entered.

    Args:
        place: URL of the folder; "": that of a folder.

    Attributes:
        tables: By schema and name.
        access: To the files, as it is given to who asks.
        after: Called after each update that was done, and each new table; a `ConnectionError` is a reply that is lost.
        before: Called before each update.
    """

    def __init__(self, folder: Path, place: str = "") -> None:
        self.folder = folder
        self.place = place
        self.access: dict[str, str] = {}
        self.token = secrets.token_urlsafe(24)
        self.tables: dict[tuple[str, str], Table] = {}
        self.staging: dict[str, Table] = {}
        self.schemas = {"shop"}
        self.before: Callable[[Body], None] = lambda _: None
        self.after: Callable[[Body], None] = lambda _: None
        self._lock = threading.Lock()
        super().__init__(type("Handler", (_Handler,), {"server_": self}))

    def settings(self, **more: str) -> dict[str, str]:
        """`sink.catalog` for it."""
        uri = f"{self.url}{ROOT.removesuffix('/delta/v1')}"
        return {"type": "unity", "uri": uri, "warehouse": CATALOG, "token": self.token, **more}

    def reply(self, method: str, path: str, body: Body) -> Reply:
        """What it does, and says; one request after the other."""
        url = urlsplit(path)
        if url.path == f"{ROOT}/config":
            return 200, _configuration(parse_qs(url.query))
        match = _TABLE.fullmatch(url.path)
        if match is None:
            raise Refused(404, "NotFound", url.path)
        catalog, schema, kind, name, rest = match.groups()
        if catalog != CATALOG or schema not in self.schemas:
            raise Refused(404, "NoSuchSchema", f"{catalog}.{schema}")
        if method == "POST" and name is None:
            if kind == "staging-tables":
                return 200, self._staged(body)
            made = self._created(schema, body)
            self.after({"updates": [{"action": "create"}]})
            return 200, made
        table = self.tables.get((schema, name or ""))
        if table is None:
            raise Refused(404, "NoSuchTable", f"{schema}.{name}")
        if rest:
            if parse_qs(url.query) != {"operation": ["READ_WRITE"]}:
                raise Refused(400, "BadRequest", "operation")
            return 200, {"storage-credentials": [self._access(table)]}
        if method == "POST":
            self.before(body)
            with self._lock:
                _update(table, body)
            self.after(body)
        return 200, table.loaded()

    def _staged(self, body: Body) -> Body:
        _require(body, {"name": str})
        table = Table(self.folder, self.place)
        self.staging[table.location] = table
        return {
            "table-id": table.id,
            "table-type": "MANAGED",
            "location": table.location,
            "storage-credentials": [self._access(table)],
            "required-protocol": {"min-reader-version": 3, "min-writer-version": 7, **REQUIRED},
            "required-properties": PROPERTIES | {"io.unitycatalog.tableId": table.id},
        }

    def _access(self, table: Table) -> Body:
        given = {"operation": "READ_WRITE", "expiration-time-ms": 1 << 42, "config": self.access}
        return {"prefix": table.location, **given}

    def _created(self, schema: str, body: Body) -> Body:
        texts = {"name": str, "table-type": str, "location": str, "comment": str, "last-commit-timestamp-ms": int}
        _require(body, texts | {"columns": dict, "partition-columns": list, "properties": dict, "protocol": dict})
        table = self.staging.pop(body["location"], None)
        if table is None:
            raise Refused(404, "NoSuchTable", "no staging table")
        if (schema, body["name"]) in self.tables:
            raise Refused(409, "AlreadyExists", body["name"])
        lines = [json.loads(line) for line in table.log(f"{0:020}.json").read_text().splitlines()]
        table.columns, table.partitions = body["columns"], body["partition-columns"]
        table.properties, table.protocol = body["properties"], body["protocol"]
        table.time = body["last-commit-timestamp-ms"]
        _check_commit(table, lines, table.time)
        _check_contract(table, lines)
        self.tables[schema, body["name"]] = table
        return table.loaded()


def _configuration(asked: dict[str, list[str]]) -> Body:
    if asked.get("catalog") != [CATALOG]:
        raise Refused(404, "NoSuchCatalog", "no such catalog")
    if asked.get("protocol-versions") != ["1.0"]:
        raise invalid("protocol versions: 1.0")
    table = "/v1/catalogs/{catalog}/schemas/{schema}/tables/{table}"
    return {"endpoints": [f"GET {table}", f"POST {table}"], "protocol-version": "1.0"}


def _require(body: Body, fields: dict[str, type]) -> None:
    if body.keys() != fields.keys() or not all(isinstance(body[name], kind) for name, kind in fields.items()):
        raise Refused(400, "BadRequest", f"expected {sorted(fields)}, got {sorted(body)}")


def _update(table: Table, body: Body) -> None:
    _require(body, {"requirements": list, "updates": list})
    if body["requirements"] != [{"type": "assert-table-uuid", "uuid": table.id}]:
        raise Refused(409, "UpdateRequirementConflict", "another table")
    updates = {update["action"]: update for update in body["updates"]}
    if not updates or len(updates) != len(body["updates"]):
        raise invalid("at most one action of each type, and at least one")
    for name, update in updates.items():
        if update.keys() != {"action"} | _ACTIONS[name]:
            raise invalid(f"{name}: {sorted(update)}")
    if "add-commit" in updates:
        _add_commit(table, updates)
    elif updates.keys() != {"set-latest-backfilled-version"}:
        raise invalid("what the log has too comes with a commit")
    if "set-latest-backfilled-version" in updates:
        published = updates["set-latest-backfilled-version"]["latest-published-version"]
        if published > table.latest:
            raise invalid("not ratified")
        for version in range(1, published + 1):
            staged = table.log(f"_staged_commits/{table.commits[version]['file-name']}")
            if table.log(f"{version:020}.json").read_bytes() != staged.read_bytes():
                raise invalid("not published")
        table.backfilled = max(table.backfilled, published)


def _add_commit(table: Table, updates: dict[str, Body]) -> None:
    commit = updates["add-commit"]["commit"]
    _require(commit, _COMMIT)
    match = _STAGED.fullmatch(commit["file-name"])
    if match is None or int(match[1]) != commit["version"]:
        raise invalid(commit["file-name"])
    if commit["version"] != table.latest + 1:
        raise Refused(409, "CommitVersionConflict", f"the newest version is {table.latest}")
    if table.latest - table.backfilled >= UNPUBLISHED_MAX:
        raise Refused(429, "ResourceExhausted", "too many commits are not published")
    content = table.log(f"_staged_commits/{commit['file-name']}").read_bytes()
    if len(content) != commit["file-size"]:
        raise invalid("file-size")
    lines = [json.loads(line) for line in content.splitlines()]
    if commit["timestamp"] <= table.time:
        raise invalid("timestamps grow")
    _check_commit(table, lines, commit["timestamp"])
    changed = Table(table.folder)
    changed.__dict__ |= table.__dict__
    _apply(changed, updates)
    _check_contract(changed, lines)
    table.__dict__ |= changed.__dict__
    table.time, table.latest = commit["timestamp"], commit["version"]
    table.commits[table.latest] = commit


def _apply(table: Table, updates: dict[str, Body]) -> None:
    table.protocol = updates.get("set-protocol", {}).get("protocol", table.protocol)
    table.columns = updates.get("set-columns", {}).get("columns", table.columns)
    table.partitions = updates.get("set-partition-columns", {}).get("partition-columns", table.partitions)
    removed = updates.get("remove-properties", {}).get("removals", [])
    if not set(removed) <= table.properties.keys():
        raise invalid(f"no such properties: {removed}")
    kept = {name: value for name, value in table.properties.items() if name not in removed}
    table.properties = kept | updates.get("set-properties", {}).get("updates", {})
    table.domains = table.domains | updates.get("set-domain-metadata", {}).get("updates", {})


def _check_commit(table: Table, lines: list[Body], timestamp: int) -> None:
    information = lines[0].get("commitInfo", {})
    if information.get("inCommitTimestamp") != timestamp or not information.get("txnId"):
        raise invalid("commitInfo has a txnId and the timestamp, and comes first")
    for line in lines:
        if (add := line.get("add")) is not None and not (table.folder / add["path"]).is_file():
            raise invalid(f"no such file: {add['path']}")


def _check_contract(table: Table, lines: list[Body]) -> None:
    # The catalog's view and the log's are the same; and the table has what the catalog asks of it.
    for name, features in REQUIRED.items():
        if not set(features) <= set(table.protocol[name]):
            raise invalid(f"{name}: {table.protocol[name]}")
    if not (PROPERTIES | {"io.unitycatalog.tableId": table.id}).items() <= table.properties.items():
        raise invalid("required properties")
    if table.properties.keys() & RESTRICTED or any(name.startswith("delta.feature.") for name in table.properties):
        raise invalid("restricted properties")
    for line in lines:
        if (protocol := line.get("protocol")) is not None:
            same = {"reader-features": protocol["readerFeatures"], "writer-features": protocol["writerFeatures"]}
            _same(same | {"min-reader-version": 3, "min-writer-version": 7}, table.protocol)
        if (metadata := line.get("metaData")) is not None:
            _same(metadata["configuration"], table.properties)
            _same(metadata["partitionColumns"], table.partitions)
            names = [(field["name"], field["nullable"]) for field in json.loads(metadata["schemaString"])["fields"]]
            _same(names, [(field["name"], field["nullable"]) for field in table.columns["fields"]])
            if re.search('[a-z](Type|Null)"', json.dumps([field["type"] for field in table.columns["fields"]])):
                raise invalid("types have names with hyphens")
        if (domain := line.get("domainMetadata")) is not None:
            _same(json.loads(domain["configuration"]), table.domains.get(domain["domain"]))


def _same(logged: object, told: object) -> None:
    if logged != told:
        raise invalid(f"the log has {logged}, and the catalog was told {told}")


class _Handler(BaseHTTPRequestHandler):
    server_: ClassVar[UnityServer]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._handle()

    do_POST = do_GET

    def _handle(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        try:
            if self.headers["Authorization"] != f"Bearer {self.server_.token}":
                raise Refused(401, "NotAuthorized", "no token")
            status, reply = self.server_.reply(self.command, self.path, json.loads(content or b"{}"))
        except Refused as error:
            status = error.status
            reply = {"error": {"type": error.kind, "code": status, "message": str(error)}}
        except ConnectionError:
            self.close_connection = True
            return
        written = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(written)))
        self.end_headers()
        self.wfile.write(written)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nobody reads it."""
