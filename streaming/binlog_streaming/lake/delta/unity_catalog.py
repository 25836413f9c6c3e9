"""Unity Catalog, which manages Delta tables: `UnityCatalog.of(settings)` asks it for tables, and tells it of commits.

By its "Managed Tables Specification", version 1.0 (unitycatalog/unitycatalog, spec/protocols/ManagedTablesSpec.md).
What fails is an OSError, as in a `Store`; no message has the token.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from binlog_format.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = "1.0"
_ROOT = "/delta/v1"
_TIMEOUT_S = 60
_CATALOGS_MAX = 8
_LOAD = "GET /v1/catalogs/{catalog}/schemas/{schema}/tables/{table}"
_NO_TABLE = frozenset({"NoSuchTableException", "NoSuchSchemaException"})
_NO_REFUSAL = 409, 429
"""Replies after which a table is looked at again: somebody else was first, or too many commits are not published."""

OPTIONS = {
    "s3.access-key-id": "AWS_ACCESS_KEY_ID",
    "s3.secret-access-key": "AWS_SECRET_ACCESS_KEY",
    "s3.session-token": "AWS_SESSION_TOKEN",
    "azure.sas-token": "AZURE_STORAGE_SAS_KEY",
    "gcs.oauth-token": "GOOGLE_BEARER_TOKEN",
}
"""Access to files as the catalog gives it, and as stores take it."""


class _Reply(msgspec.Struct, frozen=True, rename="kebab"):
    """Common parts of replies: their names have hyphens."""


class StagedCommit(_Reply, frozen=True):
    """A commit that the catalog has taken, in `_delta_log/_staged_commits`; it may be published, too."""

    version: int
    file_name: str


class TableFacts(_Reply, frozen=True):
    """A table as the catalog has it; its properties have some of the catalog's own among them."""

    table_uuid: str
    location: str
    properties: dict[str, str]
    partition_columns: tuple[str, ...] = ()


class ManagedTable(_Reply, frozen=True):
    """A table, its newest version, and the commits that may not be published; no version: it is not managed."""

    metadata: TableFacts
    commits: tuple[StagedCommit, ...] = ()
    latest_table_version: int | None = None


class FileAccess(_Reply, frozen=True):
    """Access to the files below a place."""

    prefix: str
    config: dict[str, str]


class RequiredProtocol(_Reply, frozen=True):
    """Features that a new table must have."""

    reader_features: tuple[str, ...] = ()
    writer_features: tuple[str, ...] = ()


class NewTable(_Reply, frozen=True):
    """A place for a new table, and what its first commit must have."""

    table_id: str
    location: str
    required_protocol: RequiredProtocol
    required_properties: dict[str, str | None]
    storage_credentials: tuple[FileAccess, ...] = ()


class _Access(_Reply, frozen=True):
    storage_credentials: tuple[FileAccess, ...]


class _Configuration(_Reply, frozen=True):
    endpoints: tuple[str, ...]
    protocol_version: str


class _Error(msgspec.Struct):
    type: str
    message: str


class _Refusal(msgspec.Struct):
    error: _Error


Kind = TypeVar("Kind", bound=_Reply)


class CatalogError(OSError):
    """The catalog cannot be asked, or answers with an error.

    Attributes:
        kind: Its name for the error; "": there is no answer, or none that is understood.
        is_refusal: Whether the request was not done and will not be, however often it is sent.
    """

    def __init__(self, reason: str, kind: str = "", *, is_refusal: bool = False) -> None:
        super().__init__(reason)
        self.kind = kind
        self.is_refusal = is_refusal


class UnityCatalog:
    """One catalog of a server, by its settings: `uri` of its API, `warehouse`, which is its name there, and `token`."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._root = settings["uri"].rstrip("/") + _ROOT
        self._name = settings["warehouse"]
        self._token = settings.get("token", "")

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> UnityCatalog:
        """The catalog of `sink.catalog`, which has been asked for its version once."""
        return _opened(tuple(sorted(settings.items())))

    def require_version(self) -> None:
        """See that it has what is asked of it here. Raises `OptionError`: `INVALID_VALUE`: it has not."""
        asked = urlencode({"catalog": self._name, "protocol-versions": VERSION})
        try:
            found = self._asked(_Configuration, "GET", f"/config?{asked}")
            reason = "" if _LOAD in found.endpoints else f"it does not list {_LOAD}"
        except CatalogError as error:
            if not error.is_refusal:
                raise
            reason = str(error)
        if reason:
            raise OptionError(
                "INVALID_VALUE",
                f"sink.catalog: no catalog {self._name} with Unity Catalog's Delta API {VERSION}: {reason}",
                hint="uri is that of its API, https://HOST/api/2.1/unity-catalog; warehouse is the catalog's name",
            )

    def load(self, name: tuple[str, str]) -> ManagedTable | None:
        """The table of schema and name; None: there is none."""
        try:
            return self._asked(ManagedTable, "GET", self._table(name))
        except CatalogError as error:
            if error.kind in _NO_TABLE:
                return None
            raise

    def update(self, name: tuple[str, str], table_id: str, updates: list[dict[str, object]]) -> ManagedTable:
        """Change a table, if it is that of *table_id*, by all *updates* at once."""
        requirements = [{"type": "assert-table-uuid", "uuid": table_id}]
        body = {"requirements": requirements, "updates": updates}
        return self._asked(ManagedTable, "POST", self._table(name), body)

    def stage(self, name: tuple[str, str]) -> NewTable:
        """A place for a new table; it gets its name by `create`."""
        return self._asked(NewTable, "POST", self._in_schema(name, "staging-tables"), {"name": name[1]})

    def create(self, name: tuple[str, str], body: dict[str, object]) -> ManagedTable:
        """Give a table, whose first commit is at its place, its name."""
        return self._asked(ManagedTable, "POST", self._in_schema(name, "tables"), {"name": name[1], **body})

    def access(self, name: tuple[str, str]) -> tuple[FileAccess, ...]:
        """Access to the files of a table, for a while."""
        asked = f"{self._table(name)}/credentials?operation=READ_WRITE"
        return self._asked(_Access, "GET", asked).storage_credentials

    def _in_schema(self, name: tuple[str, str], kind: str) -> str:
        return f"/catalogs/{quote(self._name, safe='')}/schemas/{quote(name[0], safe='')}/{kind}"

    def _table(self, name: tuple[str, str]) -> str:
        return f"{self._in_schema(name, 'tables')}/{quote(name[1], safe='')}"

    def _asked(self, kind: type[Kind], method: str, path: str, body: dict[str, object] | None = None) -> Kind:
        content = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(self._root + path, content, headers, method=method)
        place = f"{self._root}{path.partition('?')[0]}"
        try:
            with _OPENER.open(request, timeout=_TIMEOUT_S) as answer:
                return msgspec.json.decode(answer.read(), type=kind)
        except urllib.error.HTTPError as error:
            raise _refused(error, place) from None
        except (OSError, http.client.HTTPException) as error:
            raise CatalogError(f"{place}: {getattr(error, 'reason', None) or error}") from error
        except msgspec.MsgspecError as error:
            raise CatalogError(f"{place}: the answer is not understood: {error}") from None


@lru_cache(_CATALOGS_MAX)
def _opened(settings: tuple[tuple[str, str], ...]) -> UnityCatalog:
    catalog = UnityCatalog(dict(settings))
    catalog.require_version()
    return catalog


def _refused(error: urllib.error.HTTPError, place: str) -> CatalogError:
    with error:
        content = error.read()
    try:
        told = msgspec.json.decode(content, type=_Refusal).error
        kind, reason = told.type, f"{told.type}: {told.message}".partition("\n")[0]
    except msgspec.MsgspecError:
        kind, reason = "", f"status {error.code}"
    is_refusal = error.code < 500 and error.code not in _NO_REFUSAL
    return CatalogError(f"{place}: {reason}", kind, is_refusal=is_refusal)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    # They would take the token along to whomever the answer names.
    def redirect_request(self, *_arguments: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects())
