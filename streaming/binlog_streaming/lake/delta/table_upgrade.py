"""Features of new tables, for a Delta table that is there: `table_upgrade` makes the actions of one commit."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from msgspec.structs import replace

from binlog_format.errors import TableError
from binlog_streaming.lake.commit_id import MODE_PROPERTY
from binlog_streaming.lake.delta.actions import statistics_of, statistics_text
from binlog_streaming.lake.delta.features import MANAGED, VECTORS, features, named_features, with_properties
from binlog_streaming.lake.delta.file_reader import DeltaFileReader
from binlog_streaming.lake.delta.iceberg_compat import forbids_vectors
from binlog_streaming.lake.delta.maintenance import retention_properties
from binlog_streaming.lake.delta.row_tracking import (
    ROW_ID_FEATURES,
    row_id_properties,
    with_row_ids,
)
from binlog_streaming.lake.delta.vectors import ENABLED
from binlog_streaming.lake.target import Upgrade
from binlog_streaming.settings import Merge, Mode

if TYPE_CHECKING:
    from binlog_streaming.lake.delta.log import Named, TableLog
    from binlog_streaming.lake.storage.store import Store
    from binlog_streaming.settings import Sink

_NOBODY = "nobody; programs that write the table have to know the feature"
_WITHOUT_VECTORS = (
    "readers without deletion vectors: deltalake's to_pyarrow_table and to_pandas; its count counts all rows"
)


def table_upgrade(uri: str, store: Store, log: TableLog, sink: Sink) -> tuple[list[Upgrade], list[Named]]:
    """Features that a table gets, and the actions of the commit that turns them on."""
    configuration = log.metadata.configuration
    upgrades: list[Upgrade] = []
    readers, writers = features(log.protocol)
    retention = {} if MANAGED in writers else retention_properties(sink.retention_hours)  # it is the catalog's
    properties = {name: value for name, value in retention.items() if name not in configuration}
    upgrades += [Upgrade(f"{name} = {value}", "nobody") for name, value in properties.items()]
    if sink.row_ids and not log.metadata.keeps_row_ids:
        upgrades.append(Upgrade("rowTracking", _NOBODY))
        properties |= {name: configuration.get(name, value) for name, value in row_id_properties().items()}
        properties["delta.enableRowTracking"] = "true"
        writers.update(ROW_ID_FEATURES)
    is_changelog = configuration.get(MODE_PROPERTY) == Mode.CHANGELOG
    if sink.merge is Merge.MARK and not is_changelog and configuration.get(ENABLED) != "true":
        if forbids_vectors(log.metadata):
            raise TableError(
                "TABLE_FEATURE",
                f"{uri}: the table has Iceberg compatibility, which forbids {VECTORS}",
                hint='Leave merge = "mark" out of [sink]: the job writes files of this table anew',
            )
        upgrades.append(Upgrade(VECTORS, _WITHOUT_VECTORS))
        properties[ENABLED] = "true"
        readers.add(VECTORS)
        writers.add(VECTORS)
    if not upgrades:
        return [], []
    metadata = with_properties(log.metadata, properties)
    known = features(log.protocol)
    protocol = log.protocol if (readers, writers) == known else named_features(readers, writers)
    if not readers:
        protocol = replace(protocol, min_reader_version=log.protocol.min_reader_version, reader_features=None)
    actions: list[Named] = [("protocol", protocol)] if protocol != log.protocol else []
    actions.append(("metaData", metadata))
    if metadata.keeps_row_ids and not log.metadata.keeps_row_ids:
        actions += with_row_ids(
            dataclasses.replace(log, protocol=protocol, metadata=metadata), _without_ids(store, log)
        )
    return upgrades, actions


def _without_ids(store: Store, log: TableLog) -> list[Named]:
    # Files whose rows have no ids yet, as they are named again with them; ids need their counts.
    reader = DeltaFileReader(store)
    files = [add for add in log.files.values() if add.base_row_id is None]
    counted = [(add, {**statistics_of(add), "numRecords": reader.row_count(add)}) for add in files]
    return [("add", replace(add, stats=statistics_text(known), data_change=False)) for add, known in counted]
