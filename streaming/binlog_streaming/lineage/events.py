"""Events of OpenLineage about one run of a job: `RunEvents`."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    dataset_version_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
    schema_dataset,
)
from openlineage.client.uuid import generate_new_uuid

from binlog_format.source_file import without_archive

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from binlog_streaming.settings import Job as TablesJob

_NAME = "binlog-stream"
_VERSION = version(_NAME)
_PRODUCER = f"pkg:pypi/{_NAME}@{_VERSION}"


class WrittenTable(msgspec.Struct, kw_only=True):
    """A target, as a run has left it so far.

    Attributes:
        source_table: `database.table` in the log.
        uri: Of the target.
        version: What a reader names to get it as it is; None: its format has no versions.
        columns: Its columns; None: they are not known.
        rows: Rows and keys that the run brought to it.
    """

    source_table: str
    uri: str
    version: str | None
    columns: pa.Schema | None
    rows: int


class RunEvents:
    """Makes the events of one run.

    Args:
        job: The settings; `lineage.namespace` is set.
        once: The run takes what is there, and ends.
    """

    def __init__(self, job: TablesJob, *, once: bool) -> None:
        assert job.lineage.namespace is not None
        self._source = job.lineage.source or "://".join(_place(without_archive(job.source.path)))
        self._run_id = str(generate_new_uuid())
        kind = job_type_job.JobTypeJobFacet(
            processingType="BATCH" if once else "STREAMING", integration="BINLOG_STREAM", jobType="JOB"
        )
        self._job = Job(namespace=job.lineage.namespace, name=job.name, facets={"jobType": kind})

    def event(
        self, state: RunState, tables: Sequence[WrittenTable] = (), *, failure: BaseException | None = None
    ) -> RunEvent:
        """The next events; *failure* ended the run."""
        engine = processing_engine_run.ProcessingEngineRunFacet(
            version=_VERSION, name=_NAME, openlineageAdapterVersion=_VERSION
        )
        run = Run(runId=self._run_id, facets={"processing_engine": engine})
        if failure is not None:
            assert run.facets is not None
            run.facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                message=str(failure), programmingLanguage="PYTHON"
            )
        sources = sorted({table.source_table for table in tables})
        return RunEvent(
            eventType=state,
            eventTime=datetime.now(UTC).isoformat(),
            run=run,
            job=self._job,
            producer=_PRODUCER,
            inputs=[InputDataset(namespace=self._source, name=name) for name in sources],
            outputs=[_output(table) for table in tables],
        )


def _output(table: WrittenTable) -> OutputDataset:
    namespace, name = _place(table.uri)
    output = OutputDataset(namespace=namespace, name=name)
    assert output.facets is not None
    assert output.outputFacets is not None
    if table.columns is not None:
        fields = [
            schema_dataset.SchemaDatasetFacetFields(name=field.name, type=str(field.type), ordinal_position=number)
            for number, field in enumerate(table.columns, 1)
        ]
        output.facets["schema"] = schema_dataset.SchemaDatasetFacet(fields=fields)
    if table.version is not None:
        output.facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=table.version)
    output.outputFacets["outputStatistics"] = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=table.rows
    )
    return output


def _place(uri: str) -> tuple[str, str]:
    """Namespace and name of files, as OpenLineage's naming has them: `file` and a path, `s3://bucket` and a key."""
    scheme, is_url, rest = uri.partition("://")
    if not is_url:
        return "file", uri
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}", key
