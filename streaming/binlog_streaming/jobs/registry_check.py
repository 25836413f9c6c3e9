"""What a registry answers to the schemas of a job, without registering them: `RegistryCheck`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_connector.envelope.avro.avro_encoding import table_schemas
from binlog_connector.envelope.avro.avro_schemas import avro_schema
from binlog_connector.envelope.table_envelope import TableEnvelope
from binlog_format.errors import BinlogError, RegistryError
from binlog_format.rows.decoding import TimeType
from binlog_streaming.topics.connecting import registry_of
from binlog_streaming.topics.step_messages import envelope_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.events.table_map import TableLayout
    from binlog_streaming.settings.publish_model import PublishJob


class RegistryCheck:
    """Asks the registry of a job, if it has one.

    Args:
        job: The settings.

    Attributes:
        url: Of the registry; None: the job needs none.

    Raises:
        RegistryError: It cannot be used.
    """

    def __init__(self, job: PublishJob) -> None:
        self._registry = registry_of(job.sink)
        self._options = envelope_options(job.sink, job.tables)
        self._decoding = replace(job.source.decoding(), time_type=TimeType.MICROS)
        self.url = None if self._registry is None else job.sink.registry.url
        if self._registry is not None:
            self._registry.reach()

    def problems(self, layout: TableLayout, topic: str) -> Iterator[str]:
        """Why the schemas of a table could not be registered under the subjects of *topic*."""
        if self._registry is None:
            return
        try:
            key, value = table_schemas(TableEnvelope.of(layout, self._options, self._decoding), self._options)
            for part, schema in (("key", key), ("value", value)):
                refusal = None if schema is None else self._registry.refusal(f"{topic}-{part}", avro_schema(schema))
                if refusal is not None:
                    yield refusal
        except RegistryError as error:
            yield str(error)
        except BinlogError as error:
            yield error.reason
