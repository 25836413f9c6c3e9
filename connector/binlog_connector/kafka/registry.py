"""Schemas in a registry, by the HTTP interface of Confluent's: `SchemaRegistry`.

A schema has one id in all subjects, and keeps it: what is registered already is only looked up.
"""

from __future__ import annotations

import base64
import http.client
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from binlog_connector.kafka.connection import CLIENT_ID, tls_context
from binlog_format.errors import OptionError, RegistryError
from binlog_format.position import Place

if TYPE_CHECKING:
    from binlog_connector.kafka.connection import Secret

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_ANSWER_SHOWN_MAX = 500
"""Characters of a registry's own words in an error."""

_NOT_FOUND = 404
_SUBCLASSES = {401: "AUTHENTICATION", 403: "DENIED", 409: "INCOMPATIBLE", 429: "FAILED"}
"""Error names by HTTP status; from 500 on `FAILED`, for all others `REFUSED`."""

_HINTS = {
    "UNREACHABLE": "See that the registry runs, and that url is its address",
    "TLS": "Name the file of the certificate authority that signed the registry's certificate",
    "AUTHENTICATION": "See the user and the password of [sink.registry]",
    "DENIED": "Let the user read and write this subject",
    "INCOMPATIBLE": "The table has changed in a way that the subject's compatibility forbids: allow it for this "
    "subject (PUT /config/SUBJECT), and start again",
    "REFUSED": "See that url is the address of a schema registry",
}


@dataclass(frozen=True, slots=True)
class RegistryConnection:
    """A registry, and who we are for it.

    Attributes:
        urls: Addresses of the same registry, as `http://host:port,http://host:port`; the first one that answers counts.
        user: For HTTP's basic authentication; None: none.
        ca_file: PEM file of certificates to trust; None: those that the system trusts.
        certificate_file: PEM file of the client's own certificate, where the registry asks for one.
        key_file: PEM file of its key.
        timeout: Seconds within which it answers.
    """

    urls: str
    user: str | None = None
    password: Secret | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    timeout: float = 10.0

    def __post_init__(self) -> None:
        if (self.user is None) != (self.password is None):
            raise OptionError("MISSING", "a user and a password belong together")


class SchemaRegistry:
    """Registers schemas, each once; one thread uses it."""

    def __init__(self, connection: RegistryConnection) -> None:
        self._connection = connection
        self._ids: dict[tuple[str, str], int] = {}
        self._latest: dict[str, tuple[int, str]] = {}
        self._schemas: dict[int, str | None] = {}

    @property
    def url(self) -> str:
        """Its address, the first one of several."""
        return self._connection.urls.split(",")[0].strip()

    def id_of(self, subject: str, schema: str) -> int:
        """The id of *schema*, which is registered under *subject* if it is not yet."""
        known = self._ids.get((subject, schema))
        if known is None:
            answer = self._asked(f"/subjects/{quote(subject, safe='')}/versions", subject, schema)
            known = self._ids[subject, schema] = _number(answer, subject)
            self._latest[subject] = known, schema
        return known

    def latest(self, subject: str) -> tuple[int, str] | None:
        """Id and text of the newest schema of *subject* that this has seen; None: it has none."""
        if subject not in self._latest:
            answer = self._asked(f"/subjects/{quote(subject, safe='')}/versions/latest", subject)
            if answer is None:
                return None
            self._latest[subject] = _number(answer, subject), str(answer.get("schema"))
        return self._latest[subject]

    def schema_of(self, number: int) -> str | None:
        """The schema with that id; None: it has none."""
        if number not in self._schemas:
            answer = self._asked(f"/schemas/ids/{number}", None)
            self._schemas[number] = None if answer is None else str(answer.get("schema"))
        return self._schemas[number]

    def reach(self) -> None:
        """See that it answers us; what every user may ask."""
        answer = self._asked("/schemas/types", None)
        if not isinstance(answer, list):
            raise _error("REFUSED", f"expected a list of kinds of schemas, got {_shown(answer)}", self._connection.urls)

    def refusal(self, subject: str, schema: str) -> str | None:
        """Check if *schema* could be registered under *subject*, without doing it; returns the reason if not."""
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        answer = self._asked(path, subject, schema)
        if answer is None or answer.get("is_compatible", True):
            return None
        return f"{subject}: its schema is not compatible with the newest one: {_shown(answer.get('messages', ''))}"

    def _asked(self, path: str, subject: str | None, schema: str | None = None) -> Any:
        """Answer of the registry, from JSON; None: the requested resource does not exist."""
        error: RegistryError | None = None
        for url in self._connection.urls.split(","):
            at = url.strip() if subject is None else f"{url.strip()}: subject {subject}"
            try:
                return self._answer(url.strip().rstrip("/") + path, at, schema)
            except RegistryError as failed:
                error = failed
                if failed.subclass not in {"UNREACHABLE", "FAILED"}:
                    break
        assert error is not None, "there is at least one address"
        raise error

    def _answer(self, url: str, at: str, schema: str | None) -> Any:
        body = None if schema is None else msgspec.json.encode({"schema": schema})
        request = urllib.request.Request(url, body, self._headers())
        try:
            with self._opener().open(request, timeout=self._connection.timeout) as answer:
                content = answer.read()
        except urllib.error.HTTPError as error:
            return _refused(error, at)
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(error, at, self._connection.timeout) from error
        try:
            return msgspec.json.decode(content)
        except msgspec.DecodeError as error:
            raise _error("REFUSED", f"the answer is not JSON: {_shown(content)}", at) from error

    def _opener(self) -> urllib.request.OpenerDirector:
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if "https://" in self._connection.urls:
            how = self._connection
            context = tls_context(how.ca_file, how.certificate_file, how.key_file)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        return urllib.request.build_opener(*handlers)

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": _CONTENT_TYPE, "Accept": _CONTENT_TYPE, "User-Agent": CLIENT_ID}
        if self._connection.user is not None and self._connection.password is not None:
            pair = f"{self._connection.user}:{self._connection.password.reveal()}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return headers


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    # They would take the password along to whomever the answer names.
    def redirect_request(self, *_arguments: Any) -> None:
        return None


def _refused(error: urllib.error.HTTPError, at: str) -> None:
    """Raise what the registry answered; returns where that is that there is no such thing."""
    with error:
        content = error.read()
    try:
        answer = msgspec.json.decode(content)
    except msgspec.DecodeError:
        answer = None
    told = answer.get("message") if isinstance(answer, dict) else None
    if error.code == _NOT_FOUND and told is not None:
        return
    subclass = (
        "FAILED" if error.code >= http.HTTPStatus.INTERNAL_SERVER_ERROR else _SUBCLASSES.get(error.code, "REFUSED")
    )
    raise _error(subclass, f"HTTP status {error.code}: {_shown(told or error.reason)}", at) from error


def _unreachable(error: Exception, at: str, timeout: float) -> RegistryError:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return _error("TLS", f"the registry's certificate is not trusted: {reason.verify_message}", at)
    if isinstance(reason, ssl.SSLError):
        return _error("TLS", f"TLS failed: {reason.reason or reason}", at)
    if isinstance(reason, TimeoutError):
        return _error("UNREACHABLE", f"no answer within {timeout:g} s", at)
    return _error("UNREACHABLE", f"no connection: {reason}", at)


def _number(answer: Any, at: str) -> int:
    number = answer.get("id") if isinstance(answer, dict) else None
    if not isinstance(number, int) or not 0 <= number < 1 << 31:
        raise _error("REFUSED", f"expected an answer with the id of a schema, got {_shown(answer)}", f"subject {at}")
    return number


def _shown(told: object) -> str:
    text = told.decode(errors="replace") if isinstance(told, bytes) else str(told)
    return text if len(text) <= _ANSWER_SHOWN_MAX else f"{text[:_ANSWER_SHOWN_MAX]}..."


def _error(subclass: str, reason: str, at: str) -> RegistryError:
    return RegistryError(subclass, reason, at=Place(at), hint=_HINTS.get(subclass))
