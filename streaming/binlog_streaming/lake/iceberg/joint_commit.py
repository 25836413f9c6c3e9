"""One commit of many Iceberg tables: `IcebergJointCommit`, for REST catalogs that have `transactions/commit`.

Commits of targets wait (`WaitingTable`): files and manifests are written, the catalog knows nothing of them. Then one
request has the requirements and the updates of all tables; the catalog makes all of it, or nothing. Snapshots have
their ids before, so after a lost reply a look at the tables shows whether it was made, and the same request can be
sent again: what comes second finds that its requirements do not hold any more.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from pyiceberg.catalog.rest import API_PREFIX, Endpoint, HttpMethod, RestCatalog
from pyiceberg.catalog.rest.response import ErrorResponse
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    RESTError,
)
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.update import AddSnapshotUpdate, RemovePropertiesUpdate, SetPropertiesUpdate

from binlog_streaming.lake.files_target import JointCommit, WaitingCommits
from binlog_streaming.lake.iceberg.catalog import open_catalog
from binlog_streaming.lake.iceberg.commit import WaitingTable
from binlog_streaming.lake.iceberg.maintenance import is_due
from binlog_streaming.lake.iceberg.snapshots import follows
from binlog_streaming.lake.iceberg.table_files import referenced_file
from binlog_streaming.lake.iceberg.target import IcebergTarget
from binlog_streaming.lake.store import looking_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from binlog_streaming.lake.iceberg.commit import IcebergCommit, WaitingUpdates
    from binlog_streaming.settings import Sink

PATH = "transactions/commit"
ENDPOINT = Endpoint(http_method=HttpMethod.POST, path=f"{API_PREFIX}/{PATH}")
"""One of the `endpoints` that a catalog states, if it commits several tables at once."""

ATTEMPTS = 4
"""Largest number of times that the same request is sent."""

MADE = 204
"""Status of the reply to a request that was done; no other one is believed."""

_ERRORS: dict[int, type[Exception]] = {
    400: BadRequestError,
    403: ForbiddenError,
    404: CommitFailedException,
    409: CommitFailedException,
}
"""Errors for replies; any other one leaves open whether the request was done."""

_REFUSALS = (BadRequestError, ForbiddenError)
"""Replies to requests that the catalog will not do, however often they come."""


@dataclass(frozen=True, slots=True)
class TableChanges(WaitingCommits):
    """Commits of one table that wait.

    Attributes:
        name: In the catalog.
        requirements: See `WaitingUpdates`.
        updates: See `WaitingUpdates`.
        recorded: Properties that they set, as they are after all of them; None: it goes.
        base: See `WaitingUpdates`.
        before: See `WaitingUpdates`.
        commits: See `WaitingUpdates`.
        reached: `sequence_number` of the table after them.
    """

    name: tuple[str, ...]
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    recorded: dict[str, str | None]
    base: int
    before: TableMetadata
    commits: tuple[IcebergCommit, ...]
    reached: int

    @classmethod
    def of(cls, uri: str, waiting: WaitingUpdates) -> TableChanges:
        """Those of a target."""
        metadata = waiting.metadata
        names = [
            name
            for update in waiting.updates
            if isinstance(update, SetPropertiesUpdate | RemovePropertiesUpdate)
            for name in (update.updates if isinstance(update, SetPropertiesUpdate) else update.removals)
        ]
        snapshot = metadata.current_snapshot()
        return cls(
            uri,
            name=waiting.name,
            requirements=waiting.requirements,
            updates=waiting.updates,
            recorded={name: metadata.properties.get(name) for name in names},
            base=waiting.base,
            before=waiting.before,
            commits=waiting.commits,
            reached=0 if snapshot is None else snapshot.sequence_number or 0,
        )

    @property
    def needs_maintenance(self) -> bool:
        """See `WaitingCommits`."""
        return is_due(self.base, self.reached)

    def is_in(self, metadata: TableMetadata) -> bool:
        """True if the table has these commits."""
        snapshots = [update.snapshot.snapshot_id for update in self.updates if isinstance(update, AddSnapshotUpdate)]
        if snapshots:
            return metadata.snapshot_by_id(snapshots[-1]) is not None
        return all(metadata.properties.get(name) == value for name, value in self.recorded.items())

    def after(self, now: Table) -> TableChanges | None:
        """The same commits after those of others since; None: they do not mean the same then (`IcebergCommit.on`)."""
        own = {file.file_path for commit in self.commits for file in commit.added}
        removed = [file for commit in self.commits for file in commit.removed if file.file_path not in own]
        added = [file for commit in self.commits for file in commit.added if referenced_file(file) not in own]
        is_append = all(commit.is_append for commit in self.commits)
        is_plain = all(commit.is_plain for commit in self.commits)
        if not is_plain or not follows(self.before, now, removed, added, is_append=is_append):
            return None
        waiting: dict[str, WaitingUpdates] = {}
        table: Table = WaitingTable(now, self.uri, waiting)
        for commit in self.commits:
            table = commit.on(table)
        return TableChanges.of(self.uri, waiting[self.uri])

    def is_possible(self, metadata: TableMetadata) -> bool:
        """True if the table is what it was when it was looked at."""
        try:
            for requirement in self.requirements:
                requirement.validate(metadata)
        except CommitFailedException:
            return False
        return True


@dataclass(slots=True)
class IcebergWaitingTargets:
    """See `WaitingTargets`."""

    write_errors: ClassVar[tuple[type[Exception], ...]] = IcebergTarget.write_errors

    _waiting: dict[str, WaitingUpdates] = field(default_factory=dict)

    def at(self, sink: Sink, uri: str) -> IcebergTarget:
        """See `Target`."""
        return IcebergTarget.at(sink, uri, self._waiting)

    def waiting(self) -> list[WaitingCommits]:
        """See `WaitingTargets`."""
        return [TableChanges.of(uri, updates) for uri, updates in self._waiting.items()]


@dataclass(frozen=True, slots=True)
class IcebergJointCommit(JointCommit[TableChanges]):
    """See `JointCommit`."""

    sink: Sink

    @classmethod
    def of(cls, sink: Sink) -> IcebergJointCommit | None:
        """That of the sink's catalog; None: the catalog does not state that it can."""
        with looking_at(sink.directory, RESTError, access="sink.catalog has the access to a catalog"):
            catalog = open_catalog(sink)
        is_able = isinstance(catalog, RestCatalog) and ENDPOINT in catalog._supported_endpoints
        return cls(sink) if is_able else None

    def targets(self) -> IcebergWaitingTargets:
        """See `JointCommit`."""
        return IcebergWaitingTargets()

    def commit(self, waiting: Sequence[TableChanges]) -> frozenset[str]:
        """See `JointCommit`.

        Where others only put the same rows into other files of a table, its commits come after theirs.

        Raises:
            CommitFailedException: A table is not there any more, or the catalog takes the request for a conflict.
            RESTError: The catalog refuses it, or nobody knows whether it was made.
        """
        catalog, left, attempt = self._catalog(), list(waiting), 1
        while left:
            try:
                _send(catalog, left)
                break
            except Exception as error:
                tables = _look(catalog, left, error)
                # None or all of them have come, unless the catalog makes one after the other.
                left = [changes for changes in left if not changes.is_in(tables[changes.uri].metadata)]
                moved = [changes for changes in left if not changes.is_possible(tables[changes.uri].metadata)]
                after = {changes.uri: changes.after(tables[changes.uri]) for changes in moved}
                changed = frozenset(uri for uri, changes in after.items() if changes is None)
                if changed:
                    return changed
                if left and not moved and (attempt == ATTEMPTS or isinstance(error, _REFUSALS)):
                    raise
                left = [after.get(changes.uri) or changes for changes in left]
                attempt += not moved
        return frozenset()

    def maintain(self, waiting: TableChanges) -> None:
        """See `JointCommit`."""
        with closing(IcebergTarget.at(self.sink, waiting.uri)) as target:
            target.maintained = waiting.base
            target.maintain(self.sink)

    def _catalog(self) -> RestCatalog:
        catalog = open_catalog(self.sink)
        assert isinstance(catalog, RestCatalog)
        return catalog


def _look(catalog: RestCatalog, changes: Sequence[TableChanges], error: Exception) -> dict[str, Table]:
    # What became of a request without a clear reply. The look also renews a token that has expired.
    try:
        return {table.uri: catalog.load_table(table.name) for table in changes}
    except Exception:
        raise error from None


def _send(catalog: RestCatalog, waiting: Sequence[TableChanges]) -> None:
    # The library does not have this request; its session has the token.
    changes = [
        CommitTableRequest.model_validate(
            {
                "identifier": {"namespace": list(changes.name[:-1]), "name": changes.name[-1]},
                "requirements": changes.requirements,
                "updates": changes.updates,
            }
        )
        for changes in waiting
    ]
    body = f'{{"table-changes":[{",".join(change.model_dump_json() for change in changes)}]}}'
    response = catalog._session.post(catalog.url(PATH), data=body.encode())
    if response.status_code == MADE:
        return
    try:
        reason = ErrorResponse.model_validate_json(response.text).error.message
    except ValueError:  # of something in between, which does not know the protocol
        reason = "without a reason"
    kind = _ERRORS.get(response.status_code, CommitStateUnknownException)
    raise kind(f"{PATH}: status {response.status_code}: {reason}")
