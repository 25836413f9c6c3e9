"""A schema registry for tests: the part of Confluent's HTTP interface that writers and readers use, done honestly.

https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from __future__ import annotations

import base64
import io
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import fastavro
from fastavro.schema import SchemaParseException

if TYPE_CHECKING:
    import ssl
    from types import TracebackType
    from typing import Self

Answer = tuple[int, Any]

_PROMOTIONS = {"int": {"long", "float", "double"}, "long": {"float", "double"}, "float": {"double"}}


@dataclass
class SchemaRegistryServer:
    """Runs on a free port of this machine while it is entered; keeps what it has when it is stopped and started.

    Attributes:
        user: Who may use it, with *password*; None: everybody.
        tls: For HTTPS; None: HTTP.
        compatibility: Of subjects, `BACKWARD` or `NONE`; *compatibility_default* of all others.
        failures: Statuses that it answers with next, before all else.
        requests: Methods and paths so far.
    """

    user: str | None = None
    password: str | None = None
    tls: ssl.SSLContext | None = None
    failures: list[int] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    port: int = 0
    compatibility: dict[str, str] = field(default_factory=dict)
    compatibility_default: str = "BACKWARD"
    _schemas: list[str] = field(default_factory=list)
    _subjects: dict[str, list[int]] = field(default_factory=dict)
    _server: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}"

    def start(self) -> None:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Nothing is told."""

            def _serve(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                status, answer = registry.answer(self.command, self.path, self.rfile.read(size), self.headers)
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = _serve

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def answer(self, method: str, path: str, body: bytes, headers: Any) -> Answer:
        """What a request gets: status, and JSON."""
        self.requests.append(f"{method} {path}")
        if self.failures:
            return self.failures.pop(0), {"error_code": 50001, "message": "the store does not answer"}
        if self.user is not None:
            pair = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
            if headers.get("Authorization") != f"Basic {pair}":
                return 401, {"error_code": 401, "message": "Unauthorized"}
        path = path.replace("?fetchMaxId=false", "").partition("?subject=")[0] if path.startswith("/schemas/") else path
        if path == "/schemas/types":
            return 200, ["AVRO"]
        if found := re.fullmatch(r"/subjects/([^/]+)/versions(/latest)?", path):
            subject = unquote(found[1])
            return self._latest(subject) if found[2] else self.register(subject, json.loads(body)["schema"])
        if found := re.fullmatch(r"/compatibility/subjects/([^/]+)/versions/latest\?verbose=true", path):
            return self._check(unquote(found[1]), json.loads(body)["schema"])
        if (found := re.fullmatch(r"/schemas/ids/(\d+)", path)) and int(found[1]) <= len(self._schemas):
            return 200, {"schema": self._schemas[int(found[1]) - 1]}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def versions(self, subject: str) -> list[dict[str, Any]]:
        """The schemas of a subject, the first one first."""
        return [json.loads(self._schemas[number - 1]) for number in self._subjects.get(subject, [])]

    def subjects(self) -> list[str]:
        return sorted(self._subjects)

    def schema(self, number: int) -> Any:
        """The schema with that id."""
        return json.loads(self._schemas[number - 1])

    def decode(self, message: bytes) -> Any:
        """A message as JSON would have it: bytes in base64, logical types as what carries them."""
        assert message[0] == 0
        content = io.BytesIO(message[5:])
        schema = without_logical_types(self.schema(int.from_bytes(message[1:5], "big")))
        value = fastavro.schemaless_reader(content, schema, None)
        assert content.read() == b""
        return as_json(value)

    def register(self, subject: str, schema: str) -> Answer:
        """Take a schema, if its subject allows it."""
        try:
            fastavro.parse_schema(json.loads(schema))
        except SchemaParseException as error:
            return 422, {"error_code": 42201, "message": str(error)}
        known = self._subjects.setdefault(subject, [])
        if schema in self._schemas and (number := self._schemas.index(schema) + 1) in known:
            return 200, {"id": number}
        reasons = self._reasons(subject, schema)
        if reasons:
            text = f"Schema being registered is incompatible with an earlier schema for subject {subject!r}: {reasons}"
            return 409, {"error_code": 409, "message": text}
        if schema not in self._schemas:
            self._schemas.append(schema)
        known.append(self._schemas.index(schema) + 1)
        return 200, {"id": known[-1]}

    def _latest(self, subject: str) -> Answer:
        if not self._subjects.get(subject):
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        number = self._subjects[subject][-1]
        return 200, {
            "subject": subject,
            "id": number,
            "version": len(self._subjects[subject]),
            "schema": self._text(number),
        }

    def _text(self, number: int) -> str:
        return self._schemas[number - 1]

    def _check(self, subject: str, schema: str) -> Answer:
        if not self._subjects.get(subject):
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        reasons = self._reasons(subject, schema)
        return 200, {"is_compatible": not reasons, "messages": reasons}

    def _reasons(self, subject: str, schema: str) -> list[str]:
        known = self._subjects.get(subject, [])
        if not known or self.compatibility.get(subject, self.compatibility_default) == "NONE":
            return []
        reader, writer = (fastavro.parse_schema(json.loads(text)) for text in (schema, self._text(known[-1])))
        return list(unreadable(reader, writer, "", {}))


def unreadable(reader: Any, writer: Any, path: str, named: dict[str, Any]) -> list[str]:
    """Why what is written with *writer* cannot be read with *reader*: BACKWARD compatibility, by Avro's rules."""
    reader, writer = (_resolved(schema, named, role) for schema, role in ((reader, "reader"), (writer, "writer")))
    if isinstance(writer, list):
        return [reason for one in writer for reason in unreadable(reader, one, path, named)]
    if isinstance(reader, list):
        of_branches = [unreadable(one, writer, path, named) for one in reader]
        return [] if [] in of_branches else max(of_branches, key=lambda reasons: reasons[0].count("/"))
    read, written = _kind(reader), _kind(writer)
    if read != written:
        return [] if read in _PROMOTIONS.get(written, ()) else [f"{path}: {written} cannot be read as {read}"]
    if read == "array":
        return unreadable(reader["items"], writer["items"], f"{path}/items", named)
    if read != "record":
        return []
    fields = {one["name"]: one for one in writer["fields"]}
    reasons: list[str] = []
    for one in reader["fields"]:
        here = f"{path}/{one['name']}"
        if one["name"] in fields:
            reasons += unreadable(one["type"], fields[one["name"]]["type"], here, named)
        elif "default" not in one:
            reasons.append(f"{here}: a new field without a default")
    return reasons


def _resolved(schema: Any, named: dict[str, Any], role: str) -> Any:
    if isinstance(schema, str):
        return named.get(f"{role} {schema}", schema)
    if isinstance(schema, dict) and schema["type"] == "record":
        named[f"{role} {schema['name']}"] = schema
    return schema


def _kind(schema: Any) -> str:
    return str(schema["type"] if isinstance(schema, dict) else schema)


def without_logical_types(schema: Any) -> Any:
    """A schema with which fastavro gives what is in the bytes, not its own objects for them."""
    if isinstance(schema, dict):
        return {name: without_logical_types(value) for name, value in schema.items() if name != "logicalType"}
    return [without_logical_types(one) for one in schema] if isinstance(schema, list) else schema


def as_json(value: Any) -> Any:
    """What JSON has for a value that fastavro gives."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: as_json(one) for name, one in value.items()}
    return [as_json(one) for one in value] if isinstance(value, list) else value
